"""The service around the comparison: processes, clocks, caches, files."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tables import table

from harness.verify import MathVerifier, VerifierConfig
from harness.verify.pool import WorkerPool

STUCK = r"\prod_{k=1}^{10^6} (k+@+\sin k)"
SUM, CLOSED = r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}"  # equal by Math-Verify alone
PAIRS = [
    ((rf"\boxed{{{answer}}}", gold), verdict)
    for gold, answer, verdict in (
        ("a^2+b^2=c^2", "c^2=a^2+b^2", "right"), ("a^2+b^2=c^2", "a^2+b^2=c", "wrong"), (r"\sin^2 x", r"1-\cos^2 x", "right"),
        (r"\sin x", r"\cos x", "wrong"), ("e", r"\sum_{n=0}^{\infty}\frac{1}{n!}", "right"), ("x<3", "3>x", "right"),
        ("n!", "(n-1)!n", "right"), (r"\ln x^3", r"3\ln x", "right"), (r"x^2+\sin y", r"\sin y+x^3", "wrong"),
    )
]  # fmt: skip


@table(__file__, "payloads", "payload")
def test_answers_are_never_run_as_code(verifier: MathVerifier, tmp_path: Path, payload: str) -> None:
    text = payload.format(marker=str(tmp_path / "marker"))
    verdicts = verifier.verify_many(
        [(f"\\boxed{{{text}}}", "0"), (f"Answer: {text} or 0", "0"), (f"{text} or 0", "0"), ("0", text)]
    )
    assert not any(verdict.correct for verdict in verdicts)
    assert not (tmp_path / "marker").exists()


def test_no_process_starts_and_no_sympy_loads_for_exact_answers() -> None:
    code = (
        "import sys\n"
        "from harness.verify import MathVerifier\n"
        "v = MathVerifier()\n"
        "assert v.verify(r'\\boxed{\\frac{1}{2}}', '0.5').correct\n"
        "assert v.verify(r'\\boxed{(1,2)}', '(1, 2.0)').correct\n"
        "assert not v.pool.process_ids() and v.pool.starts == 0\n"
        "assert not {'sympy', 'math_verify', 'antlr4', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_neither_order_nor_workers_nor_stuck_neighbours_change_a_verdict() -> None:
    expected = dict(PAIRS) | {(rf"\boxed{{{STUCK.replace('@', '1')}}}", "1"): "timeout"}
    for workers in (1, 2):
        order = list(expected)
        random.Random(workers).shuffle(order)
        with MathVerifier(VerifierConfig(workers=workers, timeout_cpu_seconds=1.0)) as verifier:
            verdicts = verifier.verify_many(order)
        assert {pair: verdict.verdict for pair, verdict in zip(order, verdicts, strict=True)} == expected


def test_threads_that_ask_at_once_get_the_same_verdicts() -> None:
    with MathVerifier(VerifierConfig(workers=2)) as verifier, ThreadPoolExecutor(4) as threads:
        for verdicts in threads.map(verifier.verify_many, [list(dict(PAIRS))] * 4):
            assert [verdict.verdict for verdict in verdicts] == list(dict(PAIRS).values())


def test_a_case_ends_after_its_processor_time_also_inside_one_call_of_c() -> None:
    # A day of elapsed time: only the kernel's count of processor time ends it.
    config = VerifierConfig(workers=1, timeout_cpu_seconds=0.8, backstop_wall_seconds=1e5)
    with contextlib.closing(WorkerPool(config)) as pool:
        case = ("1", STUCK.replace("@", "0"), "either")
        assert pool.answers([case])[case] == ("timeout", "pool")
        assert pool.starts == 1
        assert pool.process_ids() == []


def test_a_stopped_worker_ends_by_the_backstop() -> None:
    with MathVerifier(VerifierConfig(workers=1)) as verifier:
        assert verifier.verify(rf"\boxed{{{SUM}+b}}", f"{CLOSED}+b").correct
        (stopped,) = verifier.pool.process_ids()
        os.kill(stopped, signal.SIGSTOP)
        patient, verifier.config.backstop_wall_seconds = verifier.config.backstop_wall_seconds, 1
        assert verifier.verify(rf"\boxed{{{SUM}+2b}}", f"{CLOSED}+2b").verdict == "timeout"
        assert stopped not in verifier.pool.process_ids()
        verifier.config.backstop_wall_seconds = patient
        assert verifier.verify(rf"\boxed{{{SUM}+3b}}", f"{CLOSED}+3b").correct


def test_a_worker_without_memory_is_replaced_and_its_case_is_lost() -> None:
    with MathVerifier(VerifierConfig(workers=1, timeout_cpu_seconds=20)) as verifier:
        giant = "+".join(["3000!"] * 30)
        verdict = verifier.verify(rf"\boxed{{({giant})^{{9000}}+\sin x}}", "x").verdict
        assert verdict in ("killed", "over_limit", "timeout", "wrong")
        assert verifier.verify(rf"\boxed{{{SUM}-b}}", f"{CLOSED}-b").correct


def test_killed_worker_does_not_lose_the_case() -> None:
    with MathVerifier(VerifierConfig(workers=1)) as verifier:
        assert verifier.verify(rf"\boxed{{{SUM}+b}}", f"{CLOSED}+b").correct
        (killed,) = verifier.pool.process_ids()
        os.kill(killed, signal.SIGKILL)
        assert verifier.verify(rf"\boxed{{{SUM}+2b}}", f"{CLOSED}+2b").correct


def test_processes_end_with_the_verifier_and_repeated_cases_come_from_the_cache() -> None:
    pairs = [(rf"\boxed{{{SUM}+5}}", f"{CLOSED}+5")] * 50
    with MathVerifier() as verifier:
        verifier.verify_many(pairs)
        pids = verifier.pool.process_ids()
        assert pids
        verifier.close()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert all(verdict.correct for verdict in verifier.verify_many(pairs))
        assert verifier.pool.process_ids() == []


def test_gold_that_cannot_be_read_is_a_fault_of_the_gold(verifier: MathVerifier) -> None:
    assert verifier.verify(r"\boxed{42}", "").verdict == "gold_unparsable"
    assert verifier.verify(r"\boxed{x+1}", "9^{9^{9^9}}").verdict == "gold_unparsable"
    assert verifier.refuses_gold("9^{9^{9^9}}")
    assert not verifier.refuses_gold(r"\frac{14}{3}")


def test_fingerprint_names_every_library_and_the_policy(verifier: MathVerifier) -> None:
    libraries = {"math-verify", "sympy", "latex2sympy2_extended", "antlr4-python3-runtime", "gmpy2"}
    assert libraries | {"policy"} <= set(verifier.fingerprint())


def test_settings_that_cannot_work_are_refused_with_the_fix() -> None:
    with pytest.raises(ValueError, match="choose one of boxed, answer_line, any"):
        VerifierConfig(extraction="last_number")
    with pytest.raises(ValueError, match=r"verifier\.workers is 0"):
        VerifierConfig(workers=0)
