"""A damaged file ends in the right answer or in a refusal that names it: a few of the cases of `fuzz_store.py`, each kind of file twice."""

from __future__ import annotations

from fuzz_store import KINDS, run


def test_a_damaged_file_is_named_or_changes_nothing() -> None:
    assert run(range(2 * len(KINDS))) == []
