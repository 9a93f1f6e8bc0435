"""The training loop's stream of groups: requests go to the ranks' engines in turn, finished groups are graded beside the sampling."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from harness.configuration.error import ConfigError
from harness.rollout.types import RolloutEngine, Session
from harness.sampling.groups import Groups
from harness.training.roll_out import RollOut


class TrainingStream:
    """See `harness.sampling.streaming.GroupStream`. Use as a context manager; one step each.

    Draws come in rounds of `prompts`, with the seeds that `RollOut.round` gives them, so the same draw has the same responses. All ranks
    see the same groups finish at the same call, hence request the same replacements.
    """

    def __init__(self, roll_out: RollOut, engine: RolloutEngine, step: int, prompts: int) -> None:
        self.roll_out, self.step, self.prompts, self.ranks = roll_out, step, prompts, roll_out.ranks
        if not hasattr(engine, "session"):
            raise ConfigError(
                "sampling.streaming=true needs an engine that can be asked group by group: engine=native or engine=vllm"
            )
        longest = max(map(len, roll_out.prompts))
        self.session: Session = engine.session(roll_out.params, longest)
        self._grading = ThreadPoolExecutor(1, "grading")
        self._draws: deque[tuple[int, np.ndarray]] = (
            deque()
        )  # problem and seeds of what was drawn and not yet requested
        self._rounds, self._requested = 0, 0
        self._problems: dict[
            int, tuple[int, int, np.ndarray]
        ] = {}  # ticket of this rank: draw, problem, seeds
        self._graded: deque[tuple[int, Future[Groups]]] = deque()
        self._outcomes: dict[int, tuple[int, float]] = {}  # draw: problem and accuracy
        self._began = time.perf_counter()

    def __enter__(self) -> TrainingStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self._grading.shutdown(cancel_futures=True)
        self.roll_out.seconds["rollout"] = time.perf_counter() - self._began
        if exception[0] is None:
            self._tell_the_curriculum()

    def _tell_the_curriculum(self) -> None:
        """Outcomes in the order of draws, a round at a time: a round's problems are distinct."""
        for start in range(0, len(self._outcomes), self.prompts):
            outcomes = [
                self._outcomes[i] for i in range(start, min(start + self.prompts, len(self._outcomes)))
            ]
            problems, accuracy = zip(*outcomes, strict=True)
            self.roll_out.curriculum.observe(np.array(problems), np.array(accuracy, dtype=np.float64))

    def request(self, count: int) -> None:
        """See `GroupStream`."""
        for _ in range(count):
            if not self._draws:
                chosen = self.roll_out.curriculum.draw(self.prompts)
                seeds = self.roll_out.seeds(self.step, self._rounds, chosen)
                self._draws.extend(zip(chosen.tolist(), seeds, strict=True))
                self._rounds += 1
            problem, seeds_G = self._draws.popleft()
            if self._requested % self.ranks.world == self.ranks.rank:
                ticket = self.session.submit(self.roll_out.prompts[problem], seeds_G)
                self._problems[ticket] = (self._requested, problem, seeds_G)
            self._requested += 1

    def finished(self) -> list[tuple[int, Groups]]:
        """See `GroupStream`."""
        for ticket, completions in self.session.poll() if self._problems else []:
            draw, problem, seeds_G = self._problems.pop(ticket)
            grading = self._grading.submit(
                self.roll_out.graded, np.array([problem]), completions, seeds_G[None]
            )
            self._graded.append((draw, grading))
        # With nothing left to sample there is nothing to do but to wait for the verifier.
        waits = not self._problems
        done = []
        while self._graded and (waits or self._graded[0][1].done()):
            draw, grading = self._graded.popleft()
            done.append((draw, grading.result()))
        arrived = sorted(
            (item for part in self.ranks.gather(done) for item in part), key=lambda item: item[0]
        )
        for draw, group in arrived:
            self._outcomes[draw] = (int(group.problems_P[0]), float(group.accuracy_P[0]))
        return arrived
