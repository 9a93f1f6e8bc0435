"""Stop supervisors: by signals, and from another terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator

from harness.store import Holder, ResultStore


def stop_supervisors(
    store: ResultStore, run_ids: Iterable[str] | None = None
) -> tuple[list[int], list[Holder]]:
    """Ask each living supervisor that holds a claim on one of the runs (None: any run) to end.

    Those of this machine get SIGTERM, those of others a request in the store, which they read within seconds.
    Their workers write a checkpoint, so running the sweep again resumes. Returns the process ids signalled
    here, and the holders on other hosts.
    """
    here, elsewhere = set(), set()
    for run_id in store.run_ids() if run_ids is None else run_ids:
        holder = store.run(run_id).claimed_by()
        if holder is None or holder.pid is None:
            continue
        if holder.host == socket.gethostname():
            here.add(holder.pid)
        else:
            elsewhere.add(holder)
            store.run(run_id).request_stop()
    for pid in here:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return sorted(here), sorted(elsewhere, key=lambda holder: (holder.host or "", holder.pid or 0))


@contextlib.contextmanager
def on_signals(numbers: Iterable[int], call: Callable[[int], None]) -> Iterator[None]:
    """Turn signals into calls with their number, in the main thread; ones that are ignored (nohup) stay ignored."""
    main = threading.current_thread() is threading.main_thread()
    wanted = [number for number in numbers if main and signal.getsignal(number) is not signal.SIG_IGN]
    old = {number: signal.signal(number, lambda number, _: call(number)) for number in wanted}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
