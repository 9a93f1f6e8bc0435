r"""Named prompt templates. `{problem}` stands for the problem; nothing else in a template is special.

A template of kind `chat` is the user turn of the model's own chat template; the others are the whole prompt, special tokens included.
Names say what a template is; the papers that use it are named in the presets under `conf/evaluation/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest

SLOT = "{problem}"


@dataclass(frozen=True)
class Template:
    """Text around a problem, and whether it is a user turn of a chat template."""

    text: str
    chat: bool

    def __call__(self, problem: str) -> str:
        """The prompt of one problem."""
        return self.text.replace(SLOT, problem)


_R1 = (
    "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. The Assistant first thinks "
    "about the reasoning process in the mind and then provides the User with the answer. The reasoning process is enclosed within "
    "<think> </think> and answer is enclosed within <answer> </answer> tags, respectively, i.e., <think> reasoning process here "
    "</think> <answer> answer here </answer>.\nUser: {problem}\nAssistant: <think>"
)
_ANSWER_LINE = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer (without "
    'quotes) where $Answer is the answer to the problem.\n\n{problem}\n\nRemember to put your answer on its own line after "Answer:".'
)
_OLMO_RLZERO = (
    "Solve the following problem step by step. The last line of your response should be the answer to the problem in form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n{problem}\n\nRemember to put your answer on its own line "
    'after "Answer:"'
)
_QWEN_MATH = (
    "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n"
    "<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"
)
_BOXED = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{}."

TEMPLATES = {
    "plain": Template(SLOT, chat=False),
    "plain_chat": Template(SLOT, chat=True),
    "boxed": Template(_BOXED, chat=True),
    "boxed_completion": Template(_BOXED + "\n", chat=False),
    "answer_line": Template(_ANSWER_LINE, chat=True),
    "olmo_rlzero": Template(_OLMO_RLZERO, chat=False),
    "qwen_math": Template(_QWEN_MATH, chat=False),
    "r1": Template(_R1, chat=False),
}


def template(name: str) -> Template:
    """Return a named template, or a text with `{problem}` in it as a whole prompt (`chat:` in front makes it a user turn).

    Raises:
        ConfigError: neither.
    """
    if name in TEMPLATES:
        return TEMPLATES[name]
    if SLOT in name:
        return Template(name.removeprefix("chat:"), chat=name.startswith("chat:"))
    raise ConfigError(f"template={name!r} is no template and has no {SLOT}{nearest(name, list(TEMPLATES))}")
