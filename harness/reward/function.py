"""A reward function of one's own: Python in a file that scores training responses instead of the verifier.

The file holds a function `(response: str, gold: str, problem: str) -> bool | float`; it is called with those of the three names that it
takes (with `**kwargs` all). True and False earn `reward.correct` and `reward.wrong`; a number is the outcome reward itself, and counts as
right above 0. Held-out evaluation keeps the verifier, so that a policy that learns to please the function is seen.
"""

import importlib
import inspect
import math
import runpy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.sections import RewardConfig
from harness.configuration.user_code import parts_of

_NAMES = ("response", "gold", "problem")


class RewardFunction:
    """The function that `algorithm.reward.function` names, `FILE.py:NAME` or `package.module:NAME`.

    Attributes:
        faults: calls that raised or returned no finite number; such responses earn `reward.wrong`. `tell` gets a line of the first.
        last_fault: how the last of them failed, empty where none has.
        nonnegative_for: the setting that needs rewards of at least 0, empty where none does.

    Raises:
        ConfigError: the file cannot be run, or the function takes other names; later, it returns less than 0 where that is no reward.
    """

    def __init__(self, reward: RewardConfig, tell: Callable[[str], None], nonnegative_for: str = "") -> None:
        self.reward, self.faults, self.last_fault, self._tell = reward, 0, "", tell
        self.nonnegative_for = nonnegative_for
        path, name = parts_of(reward.function)
        try:
            module = reward.function.removesuffix(f":{name}")
            self._function: Callable[..., Any] = (
                runpy.run_path(str(path))[name]
                if module.endswith(".py")
                else getattr(importlib.import_module(module), name)
            )
        except Exception as error:
            raise ConfigError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
        parameters = inspect.signature(self._function).parameters
        mandatory = {
            key
            for key, p in parameters.items()
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        }
        if unknown := sorted(mandatory - set(_NAMES)):
            raise ConfigError(f"{name} of {path} takes {', '.join(unknown)}; it is given {', '.join(_NAMES)}")
        takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._argument_names = [key for key in _NAMES if takes_all or key in parameters]

    def outcomes(self, responses: Sequence[str], golds: Sequence[str], problems: Sequence[str]) -> torch.Tensor:
        """Return the outcome rewards, float64 [R], of responses to problems with these gold answers."""
        rows = zip(responses, golds, problems, strict=True)
        return torch.tensor([self._outcome(dict(zip(_NAMES, row, strict=True))) for row in rows], dtype=torch.float64)

    def _outcome(self, arguments: dict[str, str]) -> float:
        try:
            result = self._function(**{key: arguments[key] for key in self._argument_names})
            value = float(result)
            fault = "" if math.isfinite(value) else f"it returned {result!r}"
        except Exception as error:  # one response must not end a run
            fault = f"{type(error).__name__}: {error}"
        if fault:
            self.faults, self.last_fault = self.faults + 1, fault
            if self.faults == 1:
                self._tell(
                    f"{self.reward.function} failed on a response, which earns reward.wrong ({fault}); verifier_faults counts them"
                )
            return self.reward.wrong
        if value < 0 and self.nonnegative_for:
            raise ConfigError(f"{self.reward.function} returned {value:g}; {self.nonnegative_for} needs 0 or more")
        if isinstance(result, bool | np.bool_):
            return self.reward.correct if result else self.reward.wrong
        return value
