"""The settings of a verifier: what it accepts and how much it may spend. Importable without sympy or Math-Verify."""

from dataclasses import dataclass

EXTRACTIONS = ("boxed", "answer_line", "any")
PERCENT_POLICIES = ("either", "value", "number")
FORMS = ("evaluated", "value")


@dataclass
class VerifierConfig:
    r"""Everything that can change a verdict, then what bounds its cost.

    Attributes:
        extraction: which shapes of a final answer count. `boxed`: the last `\boxed{}` or `\fbox{}`. `answer_line`: also the last answer
            line (`Answer: 42`, `#### 42`, `The answer is 42`). `any`: also the value that ends the text, or a bare answer.
        answer_must_end: the answer must be the last thing said, but for a unit, punctuation and special tokens such as `<|im_end|>`.
        form: what counts of answers that are equal to the gold one. `evaluated`: those that leave nothing to work out
            (harness/verify/form.py); `value`: all.
        percent: what `50%` equals. `either`: 0.5 and 50 both, never 0.005 or 5000; `value`: 0.5 only; `number`: 50 only.
        workers: processes that grade slow cases; none is started before the first slow case.
        timeout_cpu_seconds: processor time one case may take.
        backstop_wall_seconds: elapsed time after which a case ends in any case; set it far above what a loaded machine takes.
    """

    extraction: str = "boxed"
    answer_must_end: bool = True
    form: str = "evaluated"
    percent: str = "either"
    workers: int = 2
    timeout_cpu_seconds: float = 2.0
    backstop_wall_seconds: float = 60.0

    def __post_init__(self) -> None:
        choices = {"extraction": EXTRACTIONS, "form": FORMS, "percent": PERCENT_POLICIES}
        for name, options in choices.items():
            if getattr(self, name) not in options:
                raise ValueError(f"verifier.{name} is {getattr(self, name)!r}: choose one of {', '.join(options)}")
        for name in ("workers", "timeout_cpu_seconds", "backstop_wall_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"verifier.{name} is {getattr(self, name)}: give a number above 0")


TROUBLE = ("timeout", "killed", "error", "over_limit", "gold_unparsable")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict.

    Attributes:
        verdict: `right`, `wrong`, `no_answer` (nothing could be extracted), `unevaluated` (equal to the gold answer, with operations
            left to do, or the problem's own expression), `gold_unparsable`, `over_limit` (refused before any parser saw it),
            `timeout`, `killed` (the process that graded it died) or `error`. Only `right` counts as correct; the others are counted apart.
        answer: the answer that was graded as text, None when there was none.
        method: what decided: `integer`, `string`, `structure`, the gold's kind, `math_verify` (`:` error), `extraction`, `limits`, `pool`.
    """

    verdict: str
    answer: str | None
    method: str

    @property
    def correct(self) -> bool:
        """Return whether the answer counts."""
        return self.verdict == "right"
