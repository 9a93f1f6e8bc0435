"""The verifier: extraction, canonical form, exact comparison and cache here; computer algebra in the worker processes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache

from harness.verify.compare.answers import AnswerComparison
from harness.verify.config import Verdict, VerifierConfig
from harness.verify.cross_check import cross_verdicts
from harness.verify.extract import MAX_CHARS, RawAnswer, ends_response, extract, is_retracted, over_limit
from harness.verify.form import form_of, open_operations
from harness.verify.pool import WorkerPool
from harness.verify.probes import OWN_TEXT, UNRELATED, equal_spellings, wrong_neighbours
from harness.verify.read.canonical import canonical_text
from harness.verify.read.formulas import equal_at_points
from harness.verify.read.nodes import Node, parse_node
from harness.verify.read.numbers import DECIMAL_DIGITS
from harness.verify.worker import ENVIRONMENT

CANONICAL_VERSION = (
    20  # 20: boxes beside each other must agree for a choice, words, a point; the last answer line counts; roundings
)
_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4-python3-runtime")
_TRANSIENT = ("timeout", "killed", "error")
_GOLDS_REMEMBERED = 50_000
_VERDICTS_REMEMBERED = 100_000
_SHOWN_CHARS = 1_000
_PLAIN_BOX = re.compile(r"\\boxed\{([1-9][0-9]{0,17})\}(?:[\s.$*]|\\[\])]|<\|\w{1,20}\|>)*")
_SEVERAL_VALUES = ("list", "set", "union")
_Key = tuple[str, str]


class MathVerifier:
    """Grades mathematical answers. Thread-safe; starts no process before the first case that needs algebra."""

    def __init__(self, config: VerifierConfig | None = None) -> None:
        self.config = config or VerifierConfig()
        self.pool = WorkerPool(self.config)
        self._comparison = AnswerComparison(self.config.percent, equal_at_points)
        self._gold = lru_cache(_GOLDS_REMEMBERED)(Gold)
        self._cache: dict[_Key, Verdict] = {}
        self._fingerprint = _versions(self.config)

    def verify(self, response: str, gold: str, problem: str | None = None) -> Verdict:
        """Return the verdict on one response; `problem` is the text that was asked, where it is known."""
        return self.verify_many([(response, gold)], [problem])[0]

    def verify_many(
        self, pairs: Sequence[tuple[str, str]], problems: Sequence[str | None] | None = None
    ) -> list[Verdict]:
        """Return the verdicts on (response, gold) pairs, in order. Slow cases run in parallel over the workers.

        `problems`: the text of each pair's problem, None where it is not known; an answer that repeats it is `restated`.
        """
        local_verdicts = [self._grade_by_value(response, self._gold(gold)) for response, gold in pairs]
        pool_verdicts = self._grade_in_pool(key for verdict, key in local_verdicts if verdict is None and key)
        verdicts = []
        for (verdict, key), problem in zip(local_verdicts, problems or [None] * len(local_verdicts), strict=True):
            if key is not None:
                verdict = self._check_form(verdict or pool_verdicts[key], key, problem)
            assert verdict is not None
            verdicts.append(verdict)
        return verdicts

    def second_many(self, pairs: Sequence[tuple[str, str]], numerals_only: bool = False) -> list[bool | None]:
        """Return what the second grader says of (response, gold) pairs, in order; see `harness.verify.cross_check`."""
        return cross_verdicts(pairs, self.pool, numerals_only)

    def equivalent(self, answer_a: str, answer_b: str) -> bool:
        """Return whether two answers are one vote: equal canonical forms, or equal in either direction."""
        return self.equivalent_many([(answer_a, answer_b)])[0]

    def equivalent_many(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return which pairs of answers are one vote, in order; what needs algebra runs in parallel over the workers."""
        keys = [(canonical_text(a), canonical_text(b)) for a, b in pairs]
        forward = self._grade_many(key for key in keys if key[0] != key[1])
        backward = self._grade_many((b, a) for (a, b), verdict in forward.items() if not verdict.correct)
        return [key[0] == key[1] or forward[key].correct or backward[key[1], key[0]].correct for key in keys]

    def refuses_gold(self, gold: str) -> bool:
        """Return whether a gold answer cannot be read, so that no answer is right."""
        return self._gold(gold).refused

    def probe_golds(self, golds: Iterable[str]) -> dict[str, list[str]]:
        """Return what is wrong with golds that have a number, in words; nothing for those that are read by their value.

        `own text only`: no answer but its own text can be right. `accepts ...`, `refuses ...`: an answer beside it, or an equal one.
        """
        nodes = {
            gold: node
            for gold in golds
            if (node := self._gold(gold).node) is not None and any(map(str.isdigit, node.text))
        }
        keys = {
            (gold, answer, right): (node.text, canonical_text(answer))
            for gold, node in nodes.items()
            for right, answers in ((True, equal_spellings(node)), (False, [UNRELATED, *wrong_neighbours(node)]))
            for answer in answers
        }
        verdicts = self._grade_many(keys.values())
        faults: dict[str, list[str]] = {gold: [OWN_TEXT] for gold, node in nodes.items() if node.kind == "words"}
        for (gold, answer, right), key in keys.items():
            verdict = verdicts[key]
            if verdict.verdict == "gold_unparsable":
                faults[gold] = [OWN_TEXT]
            elif verdict.correct != right and verdict.verdict not in _TRANSIENT:
                faults.setdefault(gold, []).append(f"{'refuses' if right else 'accepts'} {answer!r}")
        return faults

    def open_operations(self, gold: str) -> dict[str, int]:
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

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ one response

    def _grade_by_value(self, response: str, gold: Gold) -> tuple[Verdict | None, _Key | None]:
        """Return the verdict on a response by its value, None where a worker has to tell, and the (gold, answer) pair that is compared."""
        if gold.integer is not None and (plain := _plain_integer(response)):
            return Verdict("right" if plain == gold.integer else "wrong", plain, "integer"), None
        start = time.perf_counter()
        raw_answer = extract(response, self.config.extraction)
        if raw_answer is None or (self.config.answer_must_end and not ends_response(response, raw_answer.end)):
            return _timed_verdict(start, "no_answer", None, "extraction"), None
        answer = self._answer_text(raw_answer, gold)
        if not answer or not self._has_one_value(raw_answer, gold):
            return _timed_verdict(start, "no_answer", None, "extraction"), None
        if gold.refused and gold.text != answer:
            return _timed_verdict(start, "gold_unparsable", answer[:200], "limits"), None
        key = gold.text, answer
        return self._compare_locally(*key, start), key

    def _has_one_value(self, raw_answer: RawAnswer, gold: Gold) -> bool:
        """Return whether boxes side by side say one value, where the gold answer is one."""
        texts = {canonical_text(text) for text in raw_answer.neighbours if any(map(str.isalnum, text))}
        node = gold.node
        if len(texts) < 2 or node is None or node.kind in _SEVERAL_VALUES:
            return True
        return all(not over_limit(text) and self._comparison.equal(node, parse_node(text)) for text in texts)

    def _answer_text(self, raw_answer: RawAnswer, gold: Gold) -> str:
        """Return the canonical answer; several boxes side by side count together only for a gold answer of several parts."""
        if len(raw_answer.text) > 4 * MAX_CHARS:
            return raw_answer.text
        answer = canonical_text(raw_answer.text)
        if raw_answer.neighbours and gold.node is not None and gold.node.kind in ("list", "set"):
            node = None if over_limit(answer) else parse_node(answer)
            if node is None or node.kind not in ("list", "set"):
                return canonical_text(", ".join(raw_answer.neighbours))
        return answer

    def _check_form(self, verdict: Verdict, key: _Key, problem: str | None) -> Verdict:
        """Return the verdict on an answer by its form as well, where its value is right."""
        if not verdict.correct or self.config.form == "value" or key[0] == key[1]:
            return verdict
        status = form_of(*key, problem)
        if status is None:
            return verdict
        return Verdict(status, key[1][:_SHOWN_CHARS], "form", verdict.seconds)

    # ------------------------------------------------------------------ two canonical texts

    def _compare_locally(self, gold: str, answer: str, start: float) -> Verdict | None:
        """Return the verdict on canonical texts, when the cache or exact comparison has one."""
        if gold == answer:
            return _timed_verdict(start, "right", answer[:_SHOWN_CHARS], "string")
        key = gold, answer
        if (cached := self._cache.get(key)) is not None:
            return cached
        try:
            if over_limit(answer):
                raise RecursionError
            gold_node, answer_node = parse_node(gold), parse_node(answer)
            equal = self._comparison.equal(gold_node, answer_node)
        except RecursionError:
            return _timed_verdict(start, "over_limit", answer[:200], "limits")
        if equal is None:
            return None
        method = _method(gold_node, answer_node)
        if method == "integer" and answer_node.exact is not None and not answer_node.exact.percent:
            answer = str(answer_node.exact.value)
        verdict = _timed_verdict(start, "right" if equal else "wrong", answer, method)
        self._remember(key, verdict)
        return verdict

    def _grade_many(self, keys: Iterable[_Key]) -> dict[_Key, Verdict]:
        """Return the verdicts on pairs of canonical texts, from the pool if need be."""
        local_verdicts = {key: self._compare_locally(*key, time.perf_counter()) for key in dict.fromkeys(keys)}
        pool_verdicts = self._grade_in_pool(key for key, verdict in local_verdicts.items() if verdict is None)
        return {key: verdict or pool_verdicts[key] for key, verdict in local_verdicts.items()}

    def _grade_in_pool(self, keys: Iterable[_Key]) -> dict[_Key, Verdict]:
        """Return the verdicts of a batch that the workers grade."""
        cases = {key: (*key, self.config.percent) for key in keys}
        answers = self.pool.answers(cases.values())
        verdicts = {}
        for key, case in cases.items():
            verdict, method, seconds = answers[case]
            verdicts[key] = Verdict(verdict, key[1], method, seconds)
            self._remember(key, verdicts[key])
        return verdicts

    def _remember(self, key: _Key, verdict: Verdict) -> None:
        if verdict.verdict not in _TRANSIENT:
            if len(self._cache) >= _VERDICTS_REMEMBERED:
                self._cache = {}
            self._cache[key] = verdict


def _timed_verdict(start: float, verdict: str, answer: str | None, method: str) -> Verdict:
    return Verdict(verdict, answer, method, time.perf_counter() - start)


def _plain_integer(response: str) -> str:
    """Return the integer in a box that ends the response and is its only one; empty for other responses."""
    start = response.rfind("\\boxed{")
    prefix = response[: max(start, 0)]
    if (
        start < 0
        or "think>" in response
        or "box" in prefix
        or "oxed" in prefix
        or is_retracted(response, start, len(response))
    ):
        return ""
    match = _PLAIN_BOX.fullmatch(response, start)
    return "" if match is None else match[1]


def _method(gold: Node, answer: Node) -> str:
    """Return what decided about two nodes that were compared here."""
    if gold.exact is not None and answer.exact is not None:
        whole = gold.exact.value.denominator == 1 and answer.exact.value.denominator == 1
        return "integer" if whole else "rational"
    if gold.kind in ("words", "choice"):
        return "string"
    return "arithmetic" if gold.kind in ("formula", "quantity") else "structure"


def _versions(config: VerifierConfig) -> dict[str, str]:
    versions = {
        "canonical": str(CANONICAL_VERSION),
        "python": platform.python_version(),
        "policy": repr((config.percent, DECIMAL_DIGITS, MAX_CHARS, config.form)),
        "gmpy2": "present, not used" if importlib.util.find_spec("gmpy2") else "absent",
        "ground_types": ENVIRONMENT["SYMPY_GROUND_TYPES"],
    }
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "absent"
    return versions


_SHORT_GOLD = 120
_SAYS_ANSWER = re.compile(r"\s*(?:the\s+)?(?:final\s+)?answer\s*(?:is\b|:|=)(?=.*\d)", re.IGNORECASE)
_HAS_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


class Gold:
    """A gold answer prepared once: its canonical text and node, and its value when it is a plain integer."""

    __slots__ = ("integer", "node", "refused", "text")

    def __init__(self, raw: str) -> None:
        self.text = canonical_text(_gold_answer(raw))
        self.refused = not self.text or over_limit(self.text)
        self.node: Node | None = None
        try:
            self.node = None if self.refused else parse_node(self.text)
        except RecursionError:
            self.refused = True
        exact = self.node.exact if self.node is not None else None
        plain = exact is not None and not exact.percent and exact.unit is None and exact.value.denominator == 1
        self.integer = str(exact.value) if exact is not None and plain else None


def _gold_answer(raw: str) -> str:
    """The answer in a gold text: its box when it has one, the last line of a worked solution, else the text itself."""
    if opener := _HAS_BOX.search(raw):
        raw_answer = extract(raw, "boxed")
        rest = raw[opener.end() :].strip()
        if raw_answer is None:
            return "" if rest.startswith("}") else rest
        return ", ".join(raw_answer.neighbours) or raw_answer.text
    if "####" in raw:
        return raw.rpartition("####")[2]
    if prefix := _SAYS_ANSWER.match(raw):
        return raw[prefix.end() :]
    if "\n" in raw.strip() and (raw_answer := extract(raw, "answer_line")) is not None:
        return raw_answer.text
    if len(raw) > _SHORT_GOLD and raw.count(" ") > _SHORT_GOLD // 8:
        raw_answer = extract(raw, "any")
        return raw if raw_answer is None else raw_answer.text
    return raw
