"""The verifier: extraction, canonical form, exact comparison and cache here; computer algebra in the pool."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from types import TracebackType

from harness.verify.compare.answers import AnswerComparison
from harness.verify.config import VerifierConfig
from harness.verify.extract.claims import contradicts, is_offered
from harness.verify.extract.final_answer import Extracted, ends_there, extract, spoken
from harness.verify.extract.garbled import is_garbled
from harness.verify.extract.sentences import choice_in
from harness.verify.form import form_of, open_operations
from harness.verify.gold import Gold
from harness.verify.limits import over_limit
from harness.verify.read.canonical import canonical_text
from harness.verify.read.formulas import formulas_equal
from harness.verify.read.nodes import Node, parse_node, plain_words
from harness.verify.read.wording import squeeze
from harness.verify.second import second_verdicts
from harness.verify.service.pool import VerifierPool
from harness.verify.service.worker import ENVIRONMENT
from harness.verify.verdict import Verdict

CANONICAL_VERSION = 12
_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4-python3-runtime")
_TRANSIENT = ("timeout", "killed", "error")
_GOLDS_REMEMBERED = 50_000
_TAIL = 400
_PLAIN_BOX = re.compile(r"\\boxed\{([1-9]\d{0,17})\}(?:[\s.$*]|\\[\])]|<\|\w{1,20}\|>)*")
_OR = re.compile(r"\s*\(?(?:\\text\s*\{\s*or\s*\}|\bor\b)\s*")
_BESIDE = 600  # characters before the last box in which another one may belong to it
_CHOICES = frozenset("ABCDEFGHIJ")
_SCALARS = ("exact", "formula", "quantity")
_Key = tuple[str, str]


class MathVerifier:
    """Grades mathematical answers. Thread-safe; starts no process before the first case that needs algebra.

    Args:
        config: what counts as an answer, and the limits; the default accepts boxes only.
    """

    def __init__(self, config: VerifierConfig | None = None) -> None:
        self.config = config or VerifierConfig()
        self.pool = VerifierPool(self.config)
        self._comparison = AnswerComparison(
            self.config.percent, self.config.decimal_digits, self._formulas_equal
        )
        self._gold = lru_cache(_GOLDS_REMEMBERED)(lambda raw: Gold(raw, self.config))
        self._cache: OrderedDict[_Key, Verdict] = OrderedDict()
        self._cache_lock = Lock()
        self._fingerprint = _versions(self.config)

    def verify(self, response: str, gold: str, problem: str | None = None) -> Verdict:
        """Return the verdict on one response; `problem` is the text that was asked, where it is known."""
        return self.verify_many([(response, gold)], [problem])[0]

    def verify_many(
        self, pairs: Sequence[tuple[str, str]], problems: Sequence[str | None] | None = None
    ) -> list[Verdict]:
        """Return the verdicts on (response, gold) pairs, in order. Slow cases run in parallel over the workers.

        Args:
            pairs: responses, each with its gold answer.
            problems: the text of each pair's problem, None where it is not known; an answer that repeats it is `restated`.
        """
        found = [self._decided(response, self._gold(gold)) for response, gold in pairs]
        graded = self._from_pool(key for verdict, key in found if verdict is None and key is not None)
        asked = problems if problems is not None else [None] * len(found)
        verdicts = []
        for (verdict, key), problem in zip(found, asked, strict=True):
            if key is not None:
                verdict = self._in_form(verdict or graded[key], key, problem)
            assert verdict is not None
            verdicts.append(verdict)
        return verdicts

    def second_many(self, pairs: Sequence[tuple[str, str]], numerals_only: bool = False) -> list[bool | None]:
        """Return what the second grader says of (response, gold) pairs, in order; see `harness.verify.second`."""
        return second_verdicts(pairs, self.pool, numerals_only)

    def equivalent(self, answer_a: str, answer_b: str) -> bool:
        """Return whether two answers are one vote: equal canonical forms, or equal in either direction."""
        return self.equivalent_many([(answer_a, answer_b)])[0]

    def equivalent_many(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return which pairs of answers are one vote, in order; what needs algebra runs in parallel over the workers."""
        keys = [(canonical_text(a), canonical_text(b)) for a, b in pairs]
        forward = self._graded_many(key for key in keys if key[0] != key[1])
        backward = self._graded_many((b, a) for (a, b), verdict in forward.items() if not verdict.correct)
        return [key[0] == key[1] or forward[key].correct or backward[key[1], key[0]].correct for key in keys]

    def check_gold(self, gold: str) -> Verdict:
        """Return the verdict on a gold answer given as its own answer, read by the parser: anything but `right` is a fault."""
        prepared = self._gold(gold)
        if prepared.refused:
            return Verdict("gold_unparsable", prepared.text or None, "limits")
        return self._graded(prepared.text, prepared.text)

    def left_open(self, gold: str) -> dict[str, int]:
        """Return what a gold answer itself leaves to work out, by kind of operation; answers may then leave as much.

        Empty for a gold answer that is evaluated, for one that cannot be read, and under `form=value`.
        """
        node = self._gold(gold).node
        return {} if node is None or self.config.form == "value" else dict(open_operations(node))

    def fingerprint(self) -> dict[str, str]:
        """Return the versions and the policy that a verdict depends on."""
        return dict(self._fingerprint)

    def close(self) -> None:
        """End the worker processes; a later slow case starts new ones."""
        self.pool.close()

    def __enter__(self) -> MathVerifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _formulas_equal(self, gold: str, answer: str) -> bool | None:
        return formulas_equal(gold, answer, self.config.decimal_digits)

    def _in_form(self, verdict: Verdict, key: _Key, problem: str | None) -> Verdict:
        """Return the verdict on an answer by its form as well, where its value is right."""
        if not verdict.correct or self.config.form == "value" or key[0] == key[1]:
            return verdict
        status = form_of(*key, problem, self.config.decimal_digits)
        if status is None:
            return verdict
        return Verdict(status, key[1][:1000], "form", verdict.seconds)

    # ------------------------------------------------------------------ one response

    def _decided(self, response: str, gold: Gold) -> tuple[Verdict | None, _Key | None]:
        """Return the verdict on a response by its value, None where a worker has to tell, and the (gold, answer) pair that is compared."""
        plain, alone = _plain_integer(response) if gold.integer is not None else ("", False)
        if alone:
            return _integer(plain, gold), None
        began = time.perf_counter()
        verdict, answer = self._without_comparison(response, gold, plain, began)
        if verdict is not None:
            return verdict, None
        key = gold.text, answer
        return self._locally(*key, began), key

    def _without_comparison(
        self, response: str, gold: Gold, plain: str, began: float
    ) -> tuple[Verdict | None, str]:
        """Return a verdict that needs no comparison, else None and the canonical answer; `plain` is the integer in the last box."""
        said_gold = self.config.extraction == "any" and gold.text and len(response) < 1000
        if said_gold and response.strip() == gold.raw:
            return _since(began, "right", gold.text[:1000], "string"), gold.text
        found = extract(response, self.config.extraction)
        if found is None or (self.config.answer_must_end and not ends_there(response, found.end)):
            return _since(began, "no_answer", None, "extraction"), ""
        if gold.node is not None and gold.node.kind in _SCALARS:
            found = self._as_one(found, gold.node)
        answer = self._answer_text(found, gold)
        if (
            found.said
            and gold.text
            and gold.integer is None
            and _same_words(canonical_text(found.said), gold.text)
        ):
            return _since(began, "right", gold.text[:1000], "string"), gold.text
        if gold.node is not None and gold.node.kind in _SCALARS and not self._offered(found, gold.node):
            return _since(began, "no_answer", None, "extraction"), ""
        if plain and answer == plain:
            return _integer(plain, gold), plain
        if (
            answer.endswith("!")
            and answer[:-1] == gold.integer
            and re.search(rf"{answer}(?![$\\}}])", response[-_TAIL:])
        ):
            answer = gold.text  # an exclamation, no factorial
        if not answer:
            return _since(began, "no_answer", None, "extraction"), ""
        if gold.refused and gold.text != answer:
            return _since(began, "gold_unparsable", answer[:200], "limits"), answer
        return None, answer

    def _offered(self, found: Extracted, gold: Node) -> bool:
        """Return whether a response offers its answer as the only one."""
        if found.said:
            return is_offered(found.said, found.text)
        if not found.beside:
            return not contradicts(found.text) and not (gold.exact is not None and is_garbled(found.text))
        texts = {canonical_text(text) for text in found.beside if any(map(str.isalnum, text))}
        return len(texts) < 2 or all(self._comparison.equal(gold, parse_node(text)) for text in texts)

    def _as_one(self, found: Extracted, gold: Node) -> Extracted:
        """Return one of values that are all the gold one (`3/4 or 0.75`), what a box says in words, or the answer as it is."""
        if "or" in found.text:
            values = [canonical_text(value) for value in _OR.split(found.text.removesuffix(")"))]
            if len(values) > 1 and all(self._comparison.equal(gold, parse_node(value)) for value in values):
                return found._replace(text=values[0], said="")
        return spoken(found) if found.shape == "box" else found

    def _answer_text(self, found: Extracted, gold: Gold) -> str:
        """Return the canonical answer; several boxes side by side count together only for a gold answer of several parts."""
        if len(found.text) > 4 * self.config.max_answer_chars:
            return found.text
        answer = canonical_text(found.text)
        if found.said and gold.node is not None and gold.node.kind == "choice" and gold.node.mark in _CHOICES:
            return choice_in(found.said, found.shape == "line") or answer
        if found.beside and gold.node is not None and gold.node.kind in ("list", "set"):
            node = parse_node(answer) if not over_limit(answer, self.config.max_answer_chars) else None
            if node is None or node.kind not in ("list", "set"):
                return canonical_text(", ".join(found.beside))
        return answer

    def _locally(self, gold: str, answer: str, began: float) -> Verdict | None:
        """Return the verdict on canonical texts, when the cache or exact comparison has one."""
        if gold == answer:
            return _since(began, "right", answer[:1000], "string")
        key = gold, answer
        with self._cache_lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        try:
            if over_limit(answer, self.config.max_answer_chars):
                raise RecursionError
            left, right = parse_node(gold), parse_node(answer)
            equal = self._comparison.equal(left, right)
        except RecursionError:
            return _since(began, "over_limit", answer[:200], "limits")
        if equal is None:
            return None
        method = _method(left, right)
        if method == "integer" and right.exact is not None and not right.exact.percent:
            answer = str(right.exact.value)
        verdict = _since(began, "right" if equal else "wrong", answer, method)
        self._remember(key, verdict)
        return verdict

    def _graded(self, gold: str, answer: str) -> Verdict:
        """Return the verdict on two canonical texts, from the pool if need be."""
        return self._graded_many([(gold, answer)])[gold, answer]

    def _graded_many(self, keys: Iterable[_Key]) -> dict[_Key, Verdict]:
        """Return the verdicts on pairs of canonical texts, from the pool if need be."""
        local = {key: self._locally(*key, time.perf_counter()) for key in dict.fromkeys(keys)}
        pooled = self._from_pool(key for key, verdict in local.items() if verdict is None)
        return {key: verdict or pooled[key] for key, verdict in local.items()}

    def _from_pool(self, keys: Iterable[_Key]) -> dict[_Key, Verdict]:
        """Return the verdicts of a batch."""
        cases = {key: (*key, self.config.percent, self.config.decimal_digits) for key in keys}
        answers = self.pool.answers(cases.values())
        verdicts = {}
        for key, case in cases.items():
            found = answers[case]
            verdicts[key] = Verdict(found[0], key[1], found[1], found[2])
            self._remember(key, verdicts[key])
        return verdicts

    def _remember(self, key: _Key, verdict: Verdict) -> None:
        if verdict.verdict in _TRANSIENT:
            return
        with self._cache_lock:
            self._cache[key] = verdict
            while len(self._cache) > self.config.cache_size:
                self._cache.popitem(last=False)


def _since(began: float, verdict: str, answer: str | None, method: str) -> Verdict:
    return Verdict(verdict, answer, method, time.perf_counter() - began)


def _integer(plain: str, gold: Gold) -> Verdict:
    return Verdict("right" if plain == gold.integer else "wrong", plain, "integer")


def _plain_integer(response: str) -> tuple[str, bool]:
    """Return the integer in the box that ends a response, empty for other responses, and whether it is the only box near the end."""
    start = response.rfind("\\boxed{")
    if start < 0 or (match := _PLAIN_BOX.fullmatch(response, start)) is None or "think>" in response:
        return "", False
    before = response.rfind("oxed", max(0, start - _BESIDE), start)
    return match[1], before < 0 or "}" not in response[before:start]


def _method(gold: Node, answer: Node) -> str:
    """Return what decided about two nodes that were compared here."""
    if gold.exact is not None and answer.exact is not None:
        whole = gold.exact.value.denominator == 1 and answer.exact.value.denominator == 1
        return "integer" if whole else "rational"
    if gold.kind in ("words", "choice"):
        return "string"
    return "arithmetic" if gold.kind in ("formula", "quantity") else "structure"


def _same_words(left: str, right: str) -> bool:
    """Return whether two texts read the same, whatever their spacing and articles, and capitals when they are words alone."""
    if squeeze(left) == squeeze(right):
        return any(char.isalpha() for char in right)
    words = parse_node(right)
    return words.kind == "words" and bool(words.mark) and plain_words(left) == words.mark


def _versions(config: VerifierConfig) -> dict[str, str]:
    found = {
        "canonical": str(CANONICAL_VERSION),
        "python": platform.python_version(),
        "policy": repr((*config.policy(), config.form)),
        "gmpy2": "present, not used" if importlib.util.find_spec("gmpy2") else "absent",
        "ground_types": ENVIRONMENT["SYMPY_GROUND_TYPES"],
    }
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "absent"
    return found
