from __future__ import annotations

import contextlib
from collections.abc import Callable

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tables import table

from harness.evaluation.result import magnitudes
from harness.verify import MathVerifier, VerifierConfig
from harness.verify.compare import Comparison
from harness.verify.extract import extract
from harness.verify.form import is_unevaluated
from harness.verify.gold import read_gold
from harness.verify.read.answers import read_text


@table(__file__, "found", "response, answer")
def test_every_shape_is_found(verifiers: Callable[..., MathVerifier], response: str, answer: str) -> None:
    assert verifiers(form="value").verify(response, answer).correct


def test_configuration_says_which_shapes_count() -> None:
    box, line, bare = r"\boxed{42}", "Answer: 42", "it makes 42"
    for mode, accepted in (("boxed", [box]), ("answer_line", [box, line]), ("any", [box, line, bare])):
        assert [text for text in (box, line, bare) if extract(text, mode) is not None] == accepted


def test_nothing_inside_an_open_think_block_counts() -> None:
    assert extract(r"<think> I guess \boxed{42}", "any") is None
    assert extract(r"<think> \boxed{41} </think> \boxed{42}", "boxed").text == "42"  # type: ignore[union-attr]
    assert extract(r"<think> \boxed{41} </think> The answer is 42", "any").text == "42"  # type: ignore[union-attr]


@table(__file__, "ended", "response, verdict")
def test_nothing_is_said_behind(verifiers: Callable[..., MathVerifier], response: str, verdict: str) -> None:
    assert verifiers(answer_must_end=True).verify(response, "42").verdict == verdict


_INTEGERS = st.integers(-(10**12), 10**12)
_NOISE = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="<"), max_size=200)


@settings(max_examples=200, deadline=None)
@given(_INTEGERS, _NOISE, st.sampled_from(["", ".", " $", "\n\nDone.", r" \]", "<|endoftext|>"]))
def test_garbage_before_the_right_box_leaves_it_right(number: int, noise: str, after: str) -> None:
    verifier = MathVerifier(VerifierConfig(answer_must_end=False))
    assert verifier.verify(f"{noise} \\boxed{{{number}}}{after}", str(number)).verdict == "right"


@settings(max_examples=200, deadline=None)
@given(_INTEGERS, _INTEGERS.filter(bool), _NOISE)
def test_a_perturbed_integer_is_wrong(number: int, change: int, noise: str) -> None:
    verifier = MathVerifier()
    assert verifier.verify(f"{noise} \\boxed{{{number + change}}}", str(number)).verdict == "wrong"


@settings(max_examples=200, deadline=None)
@given(st.integers(-999, 999), st.integers(1, 999), st.integers(1, 50))
def test_fractions_equal_their_multiples_and_nothing_beside(top: int, bottom: int, factor: int) -> None:
    verifier = MathVerifier(VerifierConfig(form="value"))
    gold = rf"\frac{{{top}}}{{{bottom}}}"
    assert verifier.verify(rf"\boxed{{{top * factor}/{bottom * factor}}}", gold).correct
    assert not verifier.verify(rf"\boxed{{{top * factor + 1}/{bottom * factor}}}", gold).correct


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_no_text_makes_the_parent_fail(impatient: MathVerifier, text: str) -> None:
    answer = extract(text, "any")
    assert answer is None or 0 <= answer.end <= len(text)
    assert impatient.verify(text, "5").verdict


TOKENS = r"""3 20 -5 1,234 0.333333 x n i e \pi \infty = \approx < > \le \in \equiv + - * / ^ _ ! % ( ) [ ] \{ \} { } | , ; : . ? $
& and or \cup \setminus \pm \frac \sqrt \binom \sin \log \max \sum_{k=1}^{n} \text{ \mathbb{R} \begin{pmatrix} \end{pmatrix}
\begin{cases} \end{cases} \over \mod \pmod{7} hours minutes cm ^\circ radians dollars
dozen million percent apples per of not maybe is which because so the a
Answer: (A) A. June 2024 3:4 \ldots — 2\frac12 3\times10^5 0.\overline{3} 1/2 f(x) P(2,3) none 万 ² 9^{9999} \lfloor \rfloor x_1 base"""
SEQUENCES = st.lists(st.sampled_from(TOKENS.split()), max_size=9).map(" ".join)


@settings(max_examples=1_000, deadline=None)
@given(SEQUENCES, SEQUENCES)
@example("i < x < 7", "2 < x < 7")
@example("|x-i| < 1", "x < 2")
@example(", or ,", "x < 2 or")
@example(r"60 ^\circ \pmod{7}", "4")
@example("9^{9999} million", "9^{9999} million, 1")
@example("3 hours 20 x minutes", "200 minutes")
def test_no_sequence_of_tokens_makes_the_parent_fail(gold: str, answer: str) -> None:
    with contextlib.suppress(RecursionError):
        nodes = read_text(gold), read_text(answer)
        assert Comparison("either", lambda *_: None).equal(*nodes) in (True, False, None)
        assert is_unevaluated(*nodes, f"Write {answer}.") in (True, False)
        assert len(magnitudes(gold)) in (0, 2)
        assert read_gold(gold).kind
