"""The supervisor: turns a list of runs into finished run directories. Imports no torch.

`pool` is the loop, `attempt` what it records, `process` and `fork_server` the two ends of starting workers.
"""

from harness.execution.supervise.attempt import Runnable
from harness.execution.supervise.devices import GpuLeases
from harness.execution.supervise.outcome import EXIT_INTERRUPTED
from harness.execution.supervise.pool import Feed, Summary, run_all
from harness.execution.supervise.stop import stop_supervisors

__all__ = ["EXIT_INTERRUPTED", "Feed", "GpuLeases", "Runnable", "Summary", "run_all", "stop_supervisors"]
