"""Speed of the verifier, measured in one run so that the ratios mean something on a loaded machine.

    python tests/benchmarks/verify_speed.py

Prints verdicts per second for integers at the end of long texts, for repeats from the cache, for one AIME evaluation,
and for mixed LaTeX answers against Math-Verify called in this process.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from harness.verify import MathVerifier, VerifierConfig

WORDS = "the sum of all positive divisors is then given by a simple argument on parity so we find "
TEMPLATES = [
    (r"\frac{%a}{%b}", r"%a/%b"), (r"%a\sqrt{%b}", r"\sqrt{%b} \cdot %a"), (r"(%a, %b)", r"\left(%a,%b\right)"),
    (r"[%a, %c)", r"[%a,%c)"), (r"x^2+%ax+%b", r"%b+%ax+x^2"), (r"%a\pi", r"\pi \cdot %a"), (r"%a\text{ cm}", r"%a"),
    (r"\{%a,%b,%c\}", r"\{%c,%b,%a\}"), (r"y=%ax+%b", r"y = %b + %ax"), (r"%a\%", r"%a"), (r"%a,%b", r"%b,%a"),
    (r"\frac{\sqrt{%a}}{%b}", r"\frac{1}{%b}\sqrt{%a}"), (r"\begin{pmatrix}%a\\%b\end{pmatrix}", r"\begin{pmatrix} %a \\ %b \end{pmatrix}"),
    (r"-%a", r"-%a"), (r"%a.5", r"\frac{%a5}{10}"), (r"\text{(C)}", "C"),
]  # fmt: skip


def rate(count: int, work: Callable[[], object]) -> float:
    """Items per second."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def long_text(length: int, answer: int) -> str:
    """A text of `length` characters with the boxed answer at its end."""
    ending = f"\\boxed{{{answer}}}."
    return (WORDS * (length // len(WORDS) + 1))[: length - len(ending)] + ending


def integers(count: int, length: int) -> float:
    """Verdicts per second on integers at the end of texts, after one warm-up pass over the gold answers."""
    generator = random.Random(0)
    pairs = [(long_text(length, n), str(n if generator.random() < 0.5 else n + 1)) for n in range(count)]
    with MathVerifier() as verifier:
        verifier.verify_many([("", gold) for _, gold in pairs])
        return rate(count, lambda: verifier.verify_many(pairs))


def mixed_cases(count: int) -> list[tuple[str, str]]:
    """(boxed answer, gold answer) pairs, no two the same."""
    generator = random.Random(1)
    cases = []
    for index in range(count):
        gold, answer = TEMPLATES[index % len(TEMPLATES)]
        numbers = {
            "%a": str(generator.randint(2, 99)),
            "%b": str(generator.randint(2, 99)),
            "%c": str(generator.randint(100, 999)),
        }
        for mark, number in numbers.items():
            gold, answer = gold.replace(mark, number), answer.replace(mark, number)
        cases.append((f"So the answer is $\\boxed{{{answer}}}$.", gold))
    return cases


def math_verify_in_process(cases: list[tuple[str, str]]) -> float:
    """Verdicts per second of Math-Verify, gold answers parsed beforehand."""
    from math_verify import parse, verify

    golds = [parse(f"${gold}$", parsing_timeout=None) for _, gold in cases]

    def grade_all() -> None:
        for gold, (text, _) in zip(golds, cases, strict=True):
            verify(gold, parse(text, parsing_timeout=None), timeout_seconds=None)

    return rate(len(cases), grade_all)


def main() -> None:
    """Prints the table."""
    report = sys.stdout.write
    report(f"integers at the end of 8000 characters, distinct : {integers(4_000, 8_000):12,.0f} verdicts/s\n")
    pairs = [(long_text(8_000, n % 1000), str(n % 1000)) for n in range(1_000)] * 50
    with MathVerifier() as verifier:
        verifier.verify_many(pairs[:1000])
        aime = rate(len(pairs), lambda: verifier.verify_many(pairs))
        report(f"integers at the end of 8000 characters, AIME-like: {aime:12,.0f} verdicts/s\n")
    samples = [(long_text(30_000, n % 1000), str(n // 32)) for n in range(960)]
    with MathVerifier() as verifier:
        report(
            f"30 x 32 samples of 30,000 characters             : {960 / rate(960, lambda: verifier.verify_many(samples)):12.4f} s\n"
        )
    cases = mixed_cases(960)
    with MathVerifier(VerifierConfig(workers=1)) as verifier:
        verifier.verify_many([("\\boxed{x+y}", "y+x"), *((gold, gold) for _, gold in cases)])
        ours = rate(len(cases), lambda: verifier.verify_many(cases))
        right = sum(verdict.correct for verdict in verifier.verify_many(cases))
        repeats = rate(len(cases), lambda: verifier.verify_many(cases))
    theirs = math_verify_in_process(cases)
    report(
        f"mixed LaTeX, one worker                          : {ours:12,.0f} verdicts/s ({right} of {len(cases)} right)\n"
    )
    report(f"mixed LaTeX, Math-Verify in process              : {theirs:12,.0f} verdicts/s\n")
    report(f"ratio                                            : {ours / theirs:12.1f}\n")
    report(f"mixed LaTeX repeated, from the cache             : {repeats:12,.0f} verdicts/s\n")


if __name__ == "__main__":
    main()
