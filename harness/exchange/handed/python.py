"""The settings of a Python file with one `GRPOConfig(...)`, read as a syntax tree: nothing is run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError

_CONFIG = "GRPOConfig"


def settings_of(text: str, path: Path, command: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return the keyword arguments, and lines on what only running the file would tell.

    Raises:
        ConfigError: it is no Python, holds no such call or several, or a value that only running the file would tell.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(f"{path}, line {error.lineno}: not Python: {error.msg}") from error
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    configs = [call for call in calls if _name(call.func) == _CONFIG and call.keywords]
    if not configs:
        raise ConfigError(f"{path} has no {_CONFIG}(...) with settings")
    if command is None and len(configs) > 1:
        lines = ", ".join(f"{number}: line {call.lineno}" for number, call in enumerate(configs, 1))
        raise ConfigError(f"{path} has {len(configs)} {_CONFIG}(...); choose with command=N ({lines})")
    if not 1 <= (command or 1) <= len(configs):
        raise ConfigError(f"command={command}: {path} has {len(configs)} {_CONFIG}(...)")
    constants = _constants(tree)
    assigned = [
        node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    ]
    made = {
        ast.unparse(node.targets[0]): _name(node.value.func)
        for node in assigned
        if isinstance(node.value, ast.Call)
    }
    found, unknown = _keywords(configs[(command or 1) - 1], constants)
    lost = [
        f"{key}={value}: only running {path.name} tells the value; give {key}=VALUE"
        if key != "**"
        else f"**{value}: only running {path.name} tells what it holds; give its settings"
        for key, value in unknown.items()
    ]
    found |= _around(calls, constants, made)
    if any(
        isinstance(node, ast.ImportFrom | ast.Import) and "unsloth" in ast.unparse(node) for node in tree.body
    ):
        lost.append("unsloth replaces TRL's trainer: its own defaults and its loss are not known here")
    return found, lost


def _around(calls: list[ast.Call], constants: dict[str, Any], made: dict[str, str]) -> dict[str, Any]:
    """Return what the calls beside the configuration say: model, adapter, reward functions."""
    found: dict[str, Any] = {}
    for call in calls:
        if _name(call.func) == "GRPOTrainer":
            more, _ = _keywords(call, constants)
            found |= {"model_name_or_path": more["model"]} if isinstance(more.get("model"), str) else {}
            found |= _rewards(call, made)
        elif _name(call.func) == "get_soft_overlong_punishment":
            found |= _keywords(call, constants)[0]  # the names that open-r1's settings have
        elif _name(call.func) in ("LoraConfig", "get_peft_model"):
            more, _ = _keywords(call, constants)
            names = {"r": "lora_r", "lora_alpha": "lora_alpha", "target_modules": "lora_target_modules"}
            found |= {"use_peft": True} | {names[key]: value for key, value in more.items() if key in names}
        elif _name(call.func) == "from_pretrained" and "model_name_or_path" not in found:
            value = (
                _value(call.args[0], constants)
                if call.args
                else _keywords(call, constants)[0].get("model_name")
            )
            found |= {"model_name_or_path": value} if isinstance(value, str) else {}
    return found


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Names that are given a literal once, at the top of the file."""
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            value = _value(node.value, found)
            name = node.targets[0].id
            found[name] = None if name in found else value
    return found


def _value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Return a literal, a constant of the file or arithmetic of them; None where only running it would tell."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, constants), _value(node.right, constants)
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        kinds: dict[type, Any] = {
            ast.Add: lambda: left + right,
            ast.Sub: lambda: left - right,
            ast.Mult: lambda: left * right,
        }
        kinds |= {ast.Div: lambda: left / right, ast.FloorDiv: lambda: left // right}
        known = (
            numbers and type(node.op) in kinds and (right or not isinstance(node.op, ast.Div | ast.FloorDiv))
        )
        return kinds[type(node.op)]() if known else None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _keywords(call: ast.Call, constants: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    found, unknown = {}, {}
    for word in call.keywords:
        value = _value(word.value, constants)
        none = isinstance(word.value, ast.Constant) and word.value.value is None
        if word.arg is None or (value is None and not none):
            unknown[word.arg or "**"] = ast.unparse(word.value)
        else:
            found[word.arg] = value
    return found, unknown


def _rewards(call: ast.Call, made: dict[str, str]) -> dict[str, Any]:
    """Return the names of the reward functions; of one that a call makes (or made) the maker's name."""
    for word in call.keywords:
        if word.arg == "reward_funcs":
            listed = word.value.elts if isinstance(word.value, ast.List | ast.Tuple) else [word.value]
            names = [
                _name(node.func) if isinstance(node, ast.Call) else ast.unparse(node)
                for node in listed
                if ast.unparse(node) != "..."
            ]
            return {"reward_funcs": [made.get(name, name) for name in names]}
    return {}


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
