"""Rewards that teach nothing: no answer is right, or every one."""

from __future__ import annotations


def nothing_to_learn(right: float | None, where: str) -> str:
    """Say what to do where a policy answers nothing or everything right; empty in between.

    Args:
        right: share of right answers; None where nothing was asked.
        where: which answers, such as "on gsm8k".
    """
    if right not in (0.0, 1.0):
        return ""
    how, remedy = ("no answer", "easier") if right == 0 else ("every answer", "harder")
    return (
        f"{how} {where} is right, so there is nothing to learn from rewards; use {remedy} problems, or look at samples for a form of "
        "the answer that the verifier does not read"
    )
