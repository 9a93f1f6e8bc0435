"""The settings of a verifier: what it accepts and how much it may spend. Importable without sympy or Math-Verify."""

from __future__ import annotations

from dataclasses import dataclass

EXTRACTIONS = ("boxed", "answer_line", "any")
PERCENT_POLICIES = ("either", "value", "number")
FORMS = ("evaluated", "value")
_ABOVE_ZERO = ("workers", "timeout_cpu_seconds", "backstop_wall_seconds", "recycle_after", "max_answer_chars")


@dataclass
class VerifierConfig:
    r"""Everything that can change a verdict, then what bounds its cost.

    Attributes:
        extraction: which shapes of a final answer count. `boxed`: the last balanced `\boxed{}` or `\fbox{}`.
            `answer_line`: a box, else the last answer line (`Answer: 42`, `#### 42`, `The answer is 42`).
            `any`: also the last formula or number of the text, or a bare answer.
        answer_must_end: the answer must be the last thing said; after it only white space, punctuation, closing
            delimiters and special tokens such as `<|im_end|>`.
        form: what counts of answers that are equal to the gold one. `evaluated`: those with nothing left to work out, beyond what the
            gold answer itself leaves (harness/verify/form.py); `value`: all.
        percent: what `50%` equals. `either`: 0.5 and 50 both (the default of Math-Verify and of most graders),
            never 0.005 or 5000; `value`: 0.5 only; `number`: 50 only.
        decimal_digits: a decimal with at least this many decimals and four significant digits equals an exact
            value that rounds to it, or a longer decimal that does (0.333333 equals 1/3, 0.33 does not).
        max_answer_chars: longer answers get the verdict `over_limit`.
        workers: processes that grade ordinary slow cases; none is started before the first slow case.
        overflow_workers: processes that may be started beside them while others are stuck.
        timeout_cpu_seconds: processor time one case may take. Its first try, among the others, gets half of that; what runs
            out, or loses its process, is graded once more when the rest of its batch is done, alone in a fresh
            process. Only the second try can end as `timeout` or `killed`.
        backstop_wall_seconds: elapsed time after which a case ends whose process uses (nearly) no processor time: it is
            blocked or stopped. Set it far above what a loaded machine takes to give a process its turn.
        patience_cpu_seconds: processor time after which a case gives its place to others and goes on beside them.
        memory_limit_mib: address space of one process.
        recycle_after: cases after which a process is replaced (the caches of sympy grow).
        cache_size: verdicts remembered, least recently used first out.
    """

    extraction: str = "boxed"
    answer_must_end: bool = False
    form: str = "evaluated"
    percent: str = "either"
    decimal_digits: int = 6
    max_answer_chars: int = 4096
    workers: int = 2
    overflow_workers: int = 8
    timeout_cpu_seconds: float = 2.0
    backstop_wall_seconds: float = 60.0
    patience_cpu_seconds: float = 0.2
    memory_limit_mib: int = 768
    recycle_after: int = 500
    cache_size: int = 100_000

    def __post_init__(self) -> None:
        choices = {"extraction": EXTRACTIONS, "form": FORMS, "percent": PERCENT_POLICIES}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"verifier.{name} is {getattr(self, name)!r}: choose one of {', '.join(allowed)}"
                )
        for name in _ABOVE_ZERO:
            if getattr(self, name) <= 0:
                raise ValueError(f"verifier.{name} is {getattr(self, name)}: give a number above 0")
        for name in ("overflow_workers", "cache_size", "patience_cpu_seconds", "decimal_digits"):
            if getattr(self, name) < 0:
                raise ValueError(f"verifier.{name} is {getattr(self, name)}: give 0 or more")
        if self.memory_limit_mib < 256:
            raise ValueError(
                f"verifier.memory_limit_mib is {self.memory_limit_mib}: sympy alone needs about 200, give 256 or more"
            )

    def policy(self) -> tuple[str, int, int]:
        """The part that decides whether two given answers are equal: equal policies may share cached verdicts."""
        return self.percent, self.decimal_digits, self.max_answer_chars
