"""The verifier: extraction, reading, exact comparison and cache here; Math-Verify in the worker processes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache

from harness.verify.compare import Comparison
from harness.verify.config import Verdict, VerifierConfig
from harness.verify.cross_check import cross_verdicts
from harness.verify.extract import Answer, ends_response, extract
from harness.verify.form import is_open, is_unevaluated
from harness.verify.gold import OWN_TEXT, UNRELATED, equal_spellings, read_gold, wrong_neighbours
from harness.verify.pool import ENVIRONMENT, WorkerPool
from harness.verify.read.answers import read_text
from harness.verify.read.grammar import Node
from harness.verify.read.symbols import restore_escapes
from harness.verify.read.tokens import MAX_CHARS
from harness.verify.read.values import DECIMAL_DIGITS
from harness.verify.read.words import asks_for_point

GRAMMAR_VERSION = 32  # chains of percents and roundings; `to`; letters of integers
_PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "mpmath", "antlr4-python3-runtime")
_TRANSIENT = ("timeout", "killed", "error")
_GOLDS_REMEMBERED = 50_000
_VERDICTS_REMEMBERED = 100_000
_SHOWN_CHARS = 1_000
_PLAIN_BOX = re.compile(r"\\boxed\{([1-9][0-9]{0,17})\}(?:[\s.$*]|\\[\])]|<\|\w{1,20}\|>)*")
_DENIALS = "not |never |nor |n't |n’t |than |but |cannot |of |be |equal |to |possibly |really |the "  # of a box; `extract` sees more
_OF_SETS = ("<", ">", r"\le", r"\ge", r"\in(")
_Key = tuple[str, str]
_Graded = tuple[Verdict | None, Node, Node]  # the verdict by value, the gold answer and the answer


class MathVerifier(AbstractContextManager["MathVerifier"]):
    """Grades mathematical answers. Thread-safe; starts no process before the first case that Math-Verify has to tell."""

    def __init__(self, config: VerifierConfig | None = None) -> None:
        self.config = config or VerifierConfig()
        self.pool = WorkerPool(self.config)
        self._comparison = Comparison(self.config.percent, lambda gold, answer: None)
        self._gold = lru_cache(_GOLDS_REMEMBERED)(read_gold)
        self._integer = lru_cache(_GOLDS_REMEMBERED)(lambda gold: self._gold(gold).integer)
        self._cache: dict[_Key, Verdict] = {}

    def verify(self, response: str, gold: str, problem: str | None = None, truncated: bool = False) -> Verdict:
        """Return the verdict on one response; see `verify_many`."""
        return self.verify_many([(response, gold)], [problem], [truncated])[0]

    def verify_many(
        self,
        pairs: Sequence[tuple[str, str]],
        problems: Sequence[str | None] | None = None,
        truncated: Sequence[bool] | None = None,
    ) -> list[Verdict]:
        """Return the verdicts on (response, gold) pairs, in order. Slow cases run in parallel over the workers.

        `problems`: the text of each pair's problem, None where it is not known; it tells whether `(1,2)` is a point. `truncated`: which
        responses were cut off; these have no answer but a closed box or a line that ends.
        """
        problems, truncated = problems or [None] * len(pairs), truncated or [False] * len(pairs)
        cases = zip(pairs, problems, truncated, strict=True)
        graded = [self._grade(*pair, problem, is_cut_off) for pair, problem, is_cut_off in cases]
        slow = self._grade_in_pool((gold.text, answer.text) for verdict, gold, answer in graded if verdict is None)
        return [
            self._with_form(verdict or slow[gold.text, answer.text], gold, answer, problem)
            for (verdict, gold, answer), problem in zip(graded, problems, strict=True)
        ]

    def second_many(self, pairs: Sequence[tuple[str, str]]) -> list[bool | None]:
        """Return what the second grader says of (response, gold) pairs, in order; see `harness.verify.cross_check`."""
        return cross_verdicts(pairs, self.pool)

    def equivalent_many(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return which pairs of answers are one vote, in order: equal texts, or equal in either direction."""
        forward = self._grade_many(pair for pair in pairs if pair[0] != pair[1])
        backward = self._grade_many((b, a) for (a, b), verdict in forward.items() if not verdict.correct)
        return [a == b or forward[a, b].correct or backward[b, a].correct for a, b in pairs]

    def refuses_gold(self, gold: str) -> bool:
        """Return whether a gold answer cannot be read or is none (`?`, `see figure`), so that no answer is right."""
        return not self._gold(gold).text

    def leaves_open(self, gold: str) -> bool:
        """Return whether a gold answer leaves something to work out where answers may not: `2^{10}`."""
        return self.config.form == "evaluated" and not self._integer(gold) and is_open(self._gold(gold))

    def probe_golds(self, golds: Iterable[str]) -> dict[str, list[str]]:
        """Return what is wrong with golds that have a number, in words; nothing for those that are read by their value.

        `own text only`: no answer but its own text can be right. `accepts ...`, `refuses ...`: an answer beside it, or an equal one.
        """
        nodes = {gold: self._gold(gold) for gold in golds if any(map(str.isdigit, self._gold(gold).text))}
        keys = {
            (gold, answer, right): (node.text, answer)
            for gold, node in nodes.items()
            for right, answers in ((True, equal_spellings(node)), (False, [UNRELATED, *wrong_neighbours(node)]))
            for answer in answers
        }
        verdicts = self._grade_many(keys.values())
        faults: dict[str, list[str]] = {gold: [OWN_TEXT] for gold, node in nodes.items() if node.is_text}
        for (gold, answer, right), key in keys.items():
            verdict = verdicts[key]
            if verdict.verdict == "gold_unparsable":
                faults[gold] = [OWN_TEXT]
            elif verdict.correct != right and verdict.verdict not in _TRANSIENT and faults.get(gold) != [OWN_TEXT]:
                faults.setdefault(gold, []).append(f"{'refuses' if right else 'accepts'} {answer!r}")
        return faults

    def fingerprint(self) -> dict[str, str]:
        """Return the versions and the policy that a verdict depends on."""
        versions = {package: importlib.metadata.version(package) for package in _PACKAGES}
        return versions | {
            "grammar": str(GRAMMAR_VERSION),
            "python": platform.python_version(),
            "policy": repr((self.config.percent, DECIMAL_DIGITS, MAX_CHARS, self.config.form)),
            "gmpy2": "present, not used" if importlib.util.find_spec("gmpy2") else "absent",
            "ground_types": ENVIRONMENT["SYMPY_GROUND_TYPES"],
        }

    def close(self) -> None:
        """End the worker processes; a later slow case starts new ones."""
        self.pool.close()

    def __exit__(self, *error: object) -> None:
        self.close()

    def _grade(self, response: str, raw_gold: str, problem: str | None, is_cut_off: bool) -> _Graded:
        """Return the verdict on a response by its value, None where a worker has to tell, with the gold and the answer."""
        gold = self._gold(raw_gold)
        if (integer := self._integer(raw_gold)) and (plain := _plain_integer(response)):
            return Verdict("right" if plain == integer else "wrong", plain, "integer"), gold, gold
        response = restore_escapes(response)
        raw = extract(response, self.config.extraction, is_cut_off)
        try:
            is_last = raw is not None and (not self.config.answer_must_end or ends_response(response, raw.end))
            answer = self._read(raw, gold) if raw is not None and is_last else None
            if answer is None or not answer.text:
                return Verdict("no_answer", None, "extraction"), gold, gold
            if not gold.text:
                return _verdict("gold_unparsable", answer.text, "limits"), gold, answer
            is_pair = gold.kind == "bracket" and gold.mark == "()" and len(gold.items) == 2
            if is_pair and problem and any(sign in answer.text for sign in _OF_SETS) and asks_for_point(problem):
                return _verdict("wrong", answer.text, "structure"), gold, answer
            return self._compare(gold, answer), gold, answer
        except RecursionError:
            return _verdict("over_limit", raw.text if raw else "", "limits"), gold, gold

    def _read(self, raw: Answer, gold: Node) -> Node | None:
        """Return the answer that is graded; boxes side by side count together for a gold of several parts, and must agree for one value."""
        answer = raw.node or read_text(raw.text)
        if not raw.neighbours or not gold.text:
            return answer
        if gold.kind in ("list", "set", "union"):
            return answer if answer.kind in ("list", "set", "union") else read_text(", ".join(raw.neighbours))
        readings = {node.text: node for node in map(read_text, raw.neighbours) if any(map(str.isalnum, node.text))}
        is_one = len(readings) < 2 or all(self._comparison.equal(gold, node) for node in readings.values())
        return answer if is_one else None

    def _with_form(self, verdict: Verdict, gold: Node, answer: Node, problem: str | None) -> Verdict:
        """Return the verdict on an answer by its form as well, where its value is right."""
        is_free = self.config.form == "value" or gold.text == answer.text
        if not verdict.correct or is_free or not is_unevaluated(gold, answer, problem):
            return verdict
        return _verdict("unevaluated", answer.text, "form")

    def _compare(self, gold: Node, answer: Node) -> Verdict | None:
        """Return the verdict on two answers, when the cache or exact comparison has one."""
        key = gold.text, answer.text
        if key[0] == key[1]:
            return _verdict("right", answer.text, "string")
        if (cached := self._cache.get(key)) is not None:
            return cached
        equal = self._comparison.equal(gold, answer)
        if equal is None:
            return None
        shown = answer.integer or answer.text
        return self._remember(key, _verdict("right" if equal else "wrong", shown, gold.kind))

    def _grade_many(self, keys: Iterable[_Key]) -> dict[_Key, Verdict]:
        """Return the verdicts on pairs of answers as texts, from the pool if need be."""
        verdicts: dict[_Key, Verdict | None] = {}
        for key in dict.fromkeys(keys):
            try:
                verdicts[key] = self._compare(*map(read_text, key))
            except RecursionError:
                verdicts[key] = _verdict("over_limit", key[1], "limits")
        slow = self._grade_in_pool(key for key, verdict in verdicts.items() if verdict is None)
        return {key: verdict or slow[key] for key, verdict in verdicts.items()}

    def _grade_in_pool(self, keys: Iterable[_Key]) -> dict[_Key, Verdict]:
        """Return the verdicts of a batch that the workers grade."""
        answers = self.pool.answers((*key, self.config.percent) for key in keys)
        verdicts = {case[:2]: _verdict(word, case[1], how) for case, (word, how) in answers.items()}
        return {key: self._remember(key, verdict) for key, verdict in verdicts.items()}

    def _remember(self, key: _Key, verdict: Verdict) -> Verdict:
        if verdict.verdict not in _TRANSIENT:
            self._cache = self._cache if len(self._cache) < _VERDICTS_REMEMBERED else {}
            self._cache[key] = verdict
        return verdict


def _verdict(verdict: str, answer: str, method: str) -> Verdict:
    return Verdict(verdict, answer[:_SHOWN_CHARS], method)


def _plain_integer(response: str) -> str:
    """Return the integer in a box that ends the response and is its only one; empty for other responses."""
    start = response.rfind("\\boxed{")
    if start < 0 or "think>" in response or response.find("box") < start or response.find("oxed") < start:
        return ""
    before = response[max(0, start - 24) : start].lower().rstrip("$*_([\\ \n") + " "
    match = _PLAIN_BOX.fullmatch(response, start)
    return "" if match is None or before.endswith(tuple(_DENIALS.split("|"))) else match[1]
