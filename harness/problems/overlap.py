"""Train / test overlap by word n-grams.

The rule is Tülu 3's (arXiv:2411.15124, section 3.2): a test problem counts as overlapping when more than half of its words lie in
8-grams that also occur in one training problem.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NGRAM = 8
COVERED = 0.5
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Overlap:
    """One test problem (by its place) and the training problem that covers the largest share of its words."""

    test: int
    train: int
    covered: float


def find_overlaps(
    train: Sequence[str], test: Sequence[str], ngram: int = NGRAM, covered: float = COVERED
) -> list[Overlap]:
    """Return test problems that one training problem covers by more than `covered`, in order.

    Time is linear in the words of both; memory in the words of `test` only. A text shorter than `ngram` words never overlaps:
    for those compare whole texts.
    """
    where: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    words_of = [_words(text) for text in test]
    for index, words in enumerate(words_of):
        for start, gram in _grams(words, ngram):
            where[gram].append((index, start))
    best: dict[int, Overlap] = {}
    for place, text in enumerate(train):
        hits: defaultdict[int, set[int]] = defaultdict(set)
        for _, gram in _grams(_words(text), ngram):
            for index, start in where.get(gram, ()):
                hits[index].add(start)
        for index, starts in hits.items():
            share = _share(starts, len(words_of[index]), ngram)
            if share > covered and (index not in best or share > best[index].covered):
                best[index] = Overlap(index, place, share)
    return [best[index] for index in sorted(best)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: list[str], size: int) -> list[tuple[int, tuple[str, ...]]]:
    """Every n-gram with its start."""
    return [(start, tuple(words[start : start + size])) for start in range(len(words) - size + 1)]


def _share(starts: set[int], words: int, ngram: int) -> float:
    """The share of words that lie in a matching n-gram."""
    mask = np.zeros(words, dtype=bool)
    for start in starts:
        mask[start : start + ngram] = True
    return float(mask.mean())
