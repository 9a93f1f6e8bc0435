"""A verdict does not depend on how busy the machine is, on the order of a batch, or on the number of workers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from harness.verify import MathVerifier, VerifierConfig
from harness.verify.service.clock import CaseClock, processor_seconds
from harness.verify.service.pool import VerifierPool
from harness.verify.service.server import Answer, Case

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads another process's clock")
STUCK = r"\int \sqrt{\tan x + e^{x^2} + @} dx"
# Rests never, and ends with the process that started it, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
NEVER_WALL_SECONDS = 1e9
PAIRS = [
    (rf"\boxed{{{answer}}}", gold) for gold, answer in (
        ("a^2+b^2=c^2", "c^2=a^2+b^2"), ("a^2+b^2=c^2", "a^2+b^2=c"), (r"\sin^2 x", r"1-\cos^2 x"), (r"\sin x", r"\cos x"),
        ("(x-1)^2+(y+2)^2=9", "(x-1)^2+(y+2)^2=3"), ("e", r"\sum_{n=0}^{\infty}\frac{1}{n!}"), ("x<3", "3>x"), (r"n!", r"(n-1)!n"),
        (r"\int_0^1 x^2 dx", r"\frac{1}{3}"), (r"\ln 8", r"3\ln 2"), (r"x^2+\sin y", r"\sin y+x^3"), (r"\cos 2x", r"1-2\sin^2 x"),
    )
]  # fmt: skip
RIGHT = (0, 2, 5, 6, 7, 8, 9, 11)
VERDICTS = ["right" if index in RIGHT else "wrong" for index in range(len(PAIRS))]

_UNLUCKY: dict[str, Answer] = {r"\sin x": ("killed", "pool", 1.0), "e": ("timeout", "pool", 1.0)}


def _stuck(count: int) -> list[tuple[str, str]]:
    return [(rf"\boxed{{{STUCK.replace('@', str(n))}}}", "x") for n in range(count)]


@contextlib.contextmanager
def _busy_core(processes: int) -> Iterator[None]:
    """This thread, and what it starts, shares one core with so many processes that never rest."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
        os.sched_setaffinity(0, cores)


def test_a_machine_many_times_slower_gives_the_same_verdicts() -> None:
    with _busy_core(5), MathVerifier(VerifierConfig(workers=2)) as verifier:
        verdicts = verifier.verify_many(PAIRS)
    assert [verdict.verdict for verdict in verdicts] == VERDICTS


@pytest.mark.parametrize("workers", [1, 3])
def test_neither_order_nor_workers_nor_stuck_neighbours_change_a_verdict(workers: int) -> None:
    expected = {pair: verdict for pair, verdict in zip(PAIRS, VERDICTS, strict=True)}
    expected |= dict.fromkeys(_stuck(1), "timeout")
    order = list(expected)
    random.Random(workers).shuffle(order)
    with MathVerifier(VerifierConfig(workers=workers)) as verifier:
        verdicts = verifier.verify_many(order)
    assert {pair: verdict.verdict for pair, verdict in zip(order, verdicts, strict=True)} == expected


def test_a_case_that_never_ends_is_a_timeout_after_its_processor_time() -> None:
    config = VerifierConfig(workers=1, timeout_cpu_seconds=0.8, backstop_wall_seconds=NEVER_WALL_SECONDS)
    with MathVerifier(config) as verifier:
        verdict = verifier.verify_many(_stuck(1))[0]
        assert verdict.verdict == "timeout"
        assert verdict.seconds >= 0.8  # of the second try; no more processor time is used than elapses
        assert (verifier.pool.counts.timeouts, verifier.pool.counts.alone) == (2, 1)
        first = verifier.pool.submit(("x", STUCK.replace("@", "0"), "either", 6)).result()
        assert first[0] == "timeout"
        assert first[2] >= 0.4


def test_a_stopped_worker_ends_by_the_backstop_and_its_case_is_graded_alone() -> None:
    with MathVerifier(VerifierConfig(workers=1, backstop_wall_seconds=5)) as verifier:
        assert verifier.verify(*PAIRS[2]).verdict == VERDICTS[2]
        (stopped,) = verifier.pool.process_ids()
        os.kill(stopped, signal.SIGSTOP)
        assert verifier.verify(*PAIRS[0]).verdict == VERDICTS[0]
        assert (verifier.pool.counts.timeouts, verifier.pool.counts.alone) == (1, 1)
        assert stopped not in verifier.pool.process_ids()


def test_what_is_stopped_again_and_again_ends_as_timeout() -> None:
    config = VerifierConfig(workers=1, timeout_cpu_seconds=1000, backstop_wall_seconds=0.5)
    with MathVerifier(config) as verifier:
        ended = threading.Event()

        def stop_all() -> None:
            while not ended.wait(0.05):
                for pid in verifier.pool.process_ids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)

        thread = threading.Thread(target=stop_all)
        thread.start()
        try:
            assert verifier.verify_many(_stuck(1))[0].verdict == "timeout"
        finally:
            ended.set()
            thread.join()


def test_bad_luck_at_the_first_try_is_graded_once_more_alone_after_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submitted: list[tuple[Case, bool]] = []
    real = VerifierPool.submit

    def unlucky(pool: VerifierPool, case: Case, alone: bool = False) -> Future[Answer]:
        submitted.append((case, alone))
        if alone or case[0] not in _UNLUCKY:
            return real(pool, case, alone)
        lost: Future[Answer] = Future()
        lost.set_result(_UNLUCKY[case[0]])
        return lost

    monkeypatch.setattr(VerifierPool, "submit", unlucky)
    with MathVerifier() as verifier:
        verdicts = [verdict.verdict for verdict in verifier.verify_many(PAIRS)]
    assert verdicts == VERDICTS
    alone = [index for index, (_, is_alone) in enumerate(submitted) if is_alone]
    assert [submitted[index][0][0] for index in alone] == list(_UNLUCKY)
    assert alone == list(range(len(submitted) - 2, len(submitted)))


def test_the_clock_counts_processor_time_and_time_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    used = 7.0
    monkeypatch.setattr("harness.verify.service.clock.processor_seconds", lambda pid: used)
    clock = CaseClock(1, cpu_seconds=2.0, backstop_wall_seconds=60.0, now=100.0)
    assert (clock.used(150.0), clock.elapsed(150.0)) == (0.0, 50.0)
    assert not clock.ran_out(clock.used(159.0), 159.0)
    used = 7.25  # more than a tenth of its time: the backstop begins anew
    assert not clock.ran_out(clock.used(159.5), 159.5)
    assert not clock.ran_out(clock.used(219.0), 219.0)
    assert clock.ran_out(clock.used(219.5), 219.5)
    used = 9.0
    assert clock.ran_out(clock.used(160.0), 160.0)


def test_the_clock_of_another_process_stands_while_that_is_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
        try:
            while (processor_seconds(busy.pid) or 0.0) < 0.05:
                pass
            os.kill(busy.pid, signal.SIGSTOP)
            os.waitpid(busy.pid, os.WUNTRACED)
            stopped = processor_seconds(busy.pid)
            own = time.process_time()
            while time.process_time() < own + 0.05:
                pass
            # The stop is told a moment before the process leaves its processor.
            assert processor_seconds(busy.pid) == pytest.approx(stopped, abs=0.01)
        finally:
            busy.kill()  # a stopped process is waited for without end
    assert processor_seconds(busy.pid) is None
