"""The verifier: extraction, canonical form, exact fast path and cache here; computer algebra in the pool."""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import importlib.util
import platform
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock
from types import TracebackType

from harness.verify.compare.answers import Comparison
from harness.verify.config import VerifierConfig
from harness.verify.extract.final_answer import Extracted, ends_there, extract
from harness.verify.extract.sentences import choice_in
from harness.verify.gold import Gold
from harness.verify.limits import over_limit
from harness.verify.read.canonical import canonical_text
from harness.verify.read.formulas import formulas_equal
from harness.verify.read.nodes import parse_node, plain_words
from harness.verify.read.wording import squeeze
from harness.verify.service.pool import Answer, Case, VerifierPool
from harness.verify.service.worker import ENVIRONMENT
from harness.verify.verdict import Verdict

CANONICAL_VERSION = 2
_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4-python3-runtime")
_TRANSIENT = ("timeout", "killed", "error")
_TRANSIENT_SECONDS = 60.0
_TRY_ALONE = ("timeout", "killed")
_GOLDS_REMEMBERED = 50_000
_INTEGERS_REMEMBERED = 100_000
_LONGEST_PLAIN = 18
_FAST_TAIL = 48
_TAIL = 400
_PLAIN_AFTER = frozenset(
    (
        "",
        ".",
        "$",
        "$.",
        ".$",
        "\n",
        ".\n",
        "$\n",
        "$.\n",
        "\\]",
        "\n\\]",
        "\\).",
        "\\)",
        "$$",
        "\n$$",
        " ",
        "**",
        ".**",
        "<|im_end|>",
        "<|endoftext|>",
    )
)
_CHOICES = frozenset("ABCDEFGHIJ")
_PLAIN_BOX = "\\boxed{"
_new = object.__new__
_set_verdict, _set_answer, _set_method, _set_seconds, _set_fingerprint = (
    Verdict.__dict__[field].__set__ for field in ("verdict", "answer", "method", "seconds", "fingerprint")
)  # a frozen dataclass spends most of its construction in object.__setattr__


_Key = tuple[str, str]
_Waiting = tuple[int, _Key]


class MathVerifier:
    """Grades mathematical answers. Thread-safe; starts no process before the first case that needs algebra.

    Args:
        config: what counts as an answer, and the limits; the default accepts boxes only.
    """

    def __init__(self, config: VerifierConfig | None = None) -> None:
        self.config = config or VerifierConfig()
        self._comparison = Comparison(self.config.percent, self.config.decimal_digits, self._formulas_equal)
        self._pool = VerifierPool(self.config)
        self._golds: dict[str, Gold] = {}
        self._rights: dict[str, Verdict] = {}
        self._wrongs: dict[str, Verdict] = {}
        self._cache: OrderedDict[tuple[str, str], tuple[Verdict, float]] = OrderedDict()
        self._cache_lock = Lock()
        self.unsettled = 0  # verdicts given so far that another try may change: timeouts, deaths, errors
        self._fingerprint = _versions(self.config)
        digest = hashlib.sha256(repr(sorted(self._fingerprint.items())).encode())
        self.fingerprint_hash = digest.hexdigest()[:12]

    def verify(self, response: str, gold: str) -> Verdict:
        """The verdict on one response."""
        return self.verify_many([(response, gold)])[0]

    def verify_many(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """The verdicts on (response, gold) pairs, in order. Slow cases run in parallel over the workers."""
        verdicts: list[Verdict | None] = []
        waiting: list[_Waiting] = []
        submitted: dict[_Key, Future[Answer]] = {}
        # Verdicts hold no cycles; going over thousands of new ones again and again would cost as much as the grading.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._grade(pairs, verdicts, waiting, submitted)
        finally:
            if collecting:
                gc.enable()
        graded = self._from_pool(submitted)
        for index, key in waiting:
            verdicts[index] = graded[key]
        return verdicts  # type: ignore[return-value]

    def _grade(
        self,
        pairs: Sequence[tuple[str, str]],
        verdicts: list[Verdict | None],
        waiting: list[_Waiting],
        submitted: dict[_Key, Future[Answer]],
    ) -> None:
        """Append what can be decided here; None, and an entry of `waiting`, for what a worker decides."""
        append, golds = verdicts.append, self._golds
        rights, wrongs, plain_after = self._rights, self._wrongs, _PLAIN_AFTER
        for response, raw_gold in pairs:
            gold = golds.get(raw_gold) or self._gold(raw_gold)
            start = response.rfind(_PLAIN_BOX)
            if start >= 0 and gold.integer is not None and len(response) - start < _FAST_TAIL:
                content, brace, after = response[start + 7 :].partition("}")
                if brace and after in plain_after and ("<" not in response or "think>" not in response):
                    is_right = content == gold.integer
                    known = (rights if is_right else wrongs).get(content) or self._plain_integer(
                        content, is_right
                    )
                    if known is not None:
                        append(known)
                        continue
            append(self._slower(response, gold, len(verdicts), waiting, submitted))

    def equivalent(self, answer_a: str, answer_b: str) -> bool:
        """Whether two answers are one vote: equal canonical forms, or equal in either direction."""
        first, second = canonical_text(answer_a), canonical_text(answer_b)
        if first == second:
            return True
        return self._graded(first, second).correct or self._graded(second, first).correct

    def check_gold(self, gold: str) -> Verdict:
        """The verdict on a gold answer given as its own answer, read by the parser: anything but `right` is a fault."""
        prepared = self._gold(gold)
        if prepared.refused:
            return self._verdict("gold_unparsable", prepared.text or None, "limits", 0.0)
        return self._graded(prepared.text, prepared.text)

    def canonical(self, response: str) -> str | None:
        """The canonical answer that would be graded, None when there is none."""
        found = extract(response, self.config.extraction)
        return None if found is None else canonical_text(found.text) or None

    def fingerprint(self) -> dict[str, str]:
        """Versions and policy that a verdict depends on."""
        return dict(self._fingerprint)

    @property
    def pool(self) -> VerifierPool:
        """The pool, for health reports."""
        return self._pool

    def close(self) -> None:
        """Ends the worker processes; a later slow case starts new ones."""
        self._pool.close()

    def __enter__(self) -> MathVerifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _formulas_equal(self, gold: str, answer: str) -> bool | None:
        return formulas_equal(gold, answer, self.config.decimal_digits)

    # ------------------------------------------------------------------ fast path

    def _gold(self, raw: str) -> Gold:
        gold = self._golds.get(raw)
        if gold is None:
            if len(self._golds) >= _GOLDS_REMEMBERED:
                self._golds.clear()
            gold = self._golds[raw] = Gold(str(raw), self.config)
        return gold

    def _plain_integer(self, content: str, is_right: bool) -> Verdict | None:
        """The verdict on a boxed integer without sign and leading zeros, kept for later; None for other texts."""
        if (
            not (content.isascii() and content.isdecimal())
            or content[0] == "0"
            or len(content) > _LONGEST_PLAIN
        ):
            return None
        verdict = self._verdict("right" if is_right else "wrong", content, "integer", 0.0)
        kept = self._rights if is_right else self._wrongs
        if len(kept) < _INTEGERS_REMEMBERED:
            kept[content] = verdict
        return verdict

    def _verdict(self, verdict: str, answer: str | None, method: str, seconds: float) -> Verdict:
        made = _new(Verdict)
        _set_verdict(made, verdict)
        _set_answer(made, answer)
        _set_method(made, method)
        _set_seconds(made, seconds)
        _set_fingerprint(made, self.fingerprint_hash)
        return made

    # ------------------------------------------------------------------ everything else

    def _slower(
        self,
        response: str,
        gold: Gold,
        index: int,
        waiting: list[_Waiting],
        submitted: dict[_Key, Future[Answer]],
    ) -> Verdict | None:
        """A verdict, or None after the case went to the pool."""
        began = time.perf_counter()
        if (
            self.config.extraction == "any"
            and len(response) < 1000
            and gold.text
            and response.strip() == gold.raw
        ):
            return self._verdict("right", gold.text[:1000], "string", time.perf_counter() - began)
        found = extract(response, self.config.extraction)
        if found is None or (self.config.answer_must_end and not ends_there(response, found.end)):
            return self._verdict("no_answer", None, "extraction", time.perf_counter() - began)
        answer = self._answer_text(found, gold)
        if found.said and gold.text and _same_words(canonical_text(found.said), gold.text):
            return self._verdict("right", gold.text[:1000], "string", time.perf_counter() - began)
        if answer.endswith("!") and answer[:-1] == gold.integer and f" is {answer}" in response[-_TAIL:]:
            answer = gold.text  # an exclamation, no factorial
        if not answer:
            return self._verdict("no_answer", None, "extraction", time.perf_counter() - began)
        if gold.refused and gold.text != answer:
            return self._verdict("gold_unparsable", answer[:200], "limits", time.perf_counter() - began)
        decided = self._locally(gold.text, answer, began)
        if decided is not None:
            return decided
        key = gold.text, answer
        if key not in submitted:
            submitted[key] = self._pool.submit(self._case(key))
        waiting.append((index, key))
        return None

    def _answer_text(self, found: Extracted, gold: Gold) -> str:
        """The canonical answer; several boxes side by side count together only for a gold answer of several parts."""
        if len(found.text) > 4 * self.config.max_answer_chars:
            return found.text
        answer = canonical_text(found.text)
        if found.said and gold.node is not None and gold.node.kind == "choice" and gold.node.mark in _CHOICES:
            return choice_in(found.said, found.shape == "line") or answer
        if found.joined is not None and gold.node is not None and gold.node.kind in ("list", "set"):
            node = parse_node(answer) if not over_limit(answer, self.config.max_answer_chars) else None
            if node is None or node.kind not in ("list", "set"):
                return canonical_text(found.joined)
        return answer

    def _locally(self, gold: str, answer: str, began: float) -> Verdict | None:
        """The verdict on canonical texts, when the cache or exact comparison has one."""
        if gold == answer:
            return self._verdict("right", answer[:1000], "string", time.perf_counter() - began)
        key = gold, answer
        known = self._cache.get(key)
        if known is not None and time.monotonic() < known[1]:
            with self._cache_lock:
                if key in self._cache:
                    self._cache.move_to_end(key)
            self.unsettled += known[0].verdict in _TRANSIENT
            return known[0]
        reason = over_limit(answer, self.config.max_answer_chars)
        if reason is not None:
            return self._verdict("over_limit", answer[:200], "limits", time.perf_counter() - began)
        try:
            left, right = parse_node(gold), parse_node(answer)
            equal = self._comparison.equal(left, right)
        except RecursionError:
            return self._verdict("over_limit", answer[:200], "limits", time.perf_counter() - began)
        if equal is None:
            return None
        method = "structure"
        if left.exact is not None and right.exact is not None:
            whole = left.exact.value.denominator == 1 and right.exact.value.denominator == 1
            method = "integer" if whole else "rational"
        elif left.kind in ("words", "choice"):
            method = "string"
        elif left.kind in ("formula", "quantity"):
            method = "arithmetic"
        text = (
            str(right.exact.value)
            if method == "integer" and right.exact and not right.exact.percent
            else answer
        )
        verdict = self._verdict("right" if equal else "wrong", text, method, time.perf_counter() - began)
        self._remember(key, verdict)
        return verdict

    def _graded(self, gold: str, answer: str) -> Verdict:
        """The verdict on two canonical texts, from the pool if need be."""
        decided = self._locally(gold, answer, time.perf_counter())
        if decided is not None:
            return decided
        key = gold, answer
        return self._from_pool({key: self._pool.submit(self._case(key))})[key]

    def _case(self, key: _Key) -> Case:
        return *key, self.config.percent, self.config.decimal_digits

    def _from_pool(self, submitted: dict[_Key, Future[Answer]]) -> dict[_Key, Verdict]:
        """The verdicts of a batch. What ran out of time or lost its process is graded once more, alone, after the others."""
        answers = {key: future.result() for key, future in submitted.items()}
        verdicts = {}
        for key, found in answers.items():
            if found[0] in _TRY_ALONE:
                found = self._pool.submit(self._case(key), alone=True).result()
            verdicts[key] = self._verdict(found[0], key[1], found[1], found[2])
            self._remember(key, verdicts[key])
        return verdicts

    def _remember(self, key: tuple[str, str], verdict: Verdict) -> None:
        unsettled = verdict.verdict in _TRANSIENT
        self.unsettled += unsettled
        until = time.monotonic() + _TRANSIENT_SECONDS if unsettled else float("inf")
        with self._cache_lock:
            self._cache[key] = verdict, until
            while len(self._cache) > self.config.cache_size:
                self._cache.popitem(last=False)


def _same_words(left: str, right: str) -> bool:
    """Whether two texts read the same, whatever their spacing and articles, and capitals when they are words alone."""
    if squeeze(left) == squeeze(right):
        return any(char.isalpha() for char in right)
    words = parse_node(right)
    return words.kind == "words" and bool(words.mark) and plain_words(left) == words.mark


def _versions(config: VerifierConfig) -> dict[str, str]:
    found = {
        "canonical": str(CANONICAL_VERSION),
        "python": platform.python_version(),
        "policy": repr(config.policy()),
    }
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    found["gmpy2"] = "present, not used" if importlib.util.find_spec("gmpy2") else "absent"
    found["ground_types"] = ENVIRONMENT["SYMPY_GROUND_TYPES"]
    return found
