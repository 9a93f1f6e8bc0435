"""Make the reference points of `harness doctor numbers=true` anew: train the protocol's runs with many seeds and write what they gave.

python -m harness.execution.numbers.make_reference harness/execution/numbers/reference.json

Needed where base policies, problems or the protocol change, or where the numbers of training change on purpose. Finished runs are kept
under `--results`, so a repeated command goes on; delete the folder after a change of the code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.configuration.schema import RunConfig
from harness.execution.numbers import protocol
from harness.execution.numbers.check import found, placed, train
from harness.execution.numbers.reference import Reference, belonging
from harness.execution.progress import progress_on
from harness.execution.provenance import provenance
from harness.model.linear import resolve_kernel
from harness.store.atomic import write_file

_DIGITS = 9  # significant; float32 has about seven


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m harness.execution.numbers.make_reference", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument(
        "--results", type=Path, default=Path("results/doctor-reference"), help="where the runs lie"
    )
    parser.add_argument("--workers", type=int, default=1, help="runs at once")
    options = parser.parse_args(arguments)
    plain = protocol.check_configs([f"runtime.workers={options.workers}", "runtime.device=cpu"])
    configs = placed(plain, options.results)
    summary = train(configs, protocol.REFERENCE_SEEDS, progress_on(sys.stderr))
    if not summary.complete:
        sys.stderr.write(f"not all runs are finished; repeat the command: {summary.errors or 'stopped'}\n")
        return 1
    write_file(options.out, make(configs).text().encode())
    return 0


def make(configs: dict[str, RunConfig]) -> Reference:
    """The reference points of finished runs."""
    there = found(configs, protocol.REFERENCE_SEEDS)
    made_with = provenance("python -m harness.execution.numbers.make_reference")
    hardware = {key: made_with["hardware"][key] for key in ("cpu", "system", "machine")}
    kernel = resolve_kernel(next(iter(configs.values())).runtime.linear_kernel)
    return Reference(
        made_with={
            "python": made_with["python"],
            "packages": made_with["packages"],
            **hardware,
            "linear_kernel": kernel,
            "seeds": list(protocol.REFERENCE_SEEDS),
        },
        log_probs={base: [_rounded(value) for value in values] for base, values in there.log_probs.items()},
        runs={
            arm: {seed: {key: _rounded(value) for key, value in run.items()} for seed, run in runs.items()}
            for arm, runs in there.runs.items()
        },
        **belonging(protocol.check_configs()),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


if __name__ == "__main__":
    raise SystemExit(main())
