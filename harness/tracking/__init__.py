"""Trackers: other places that receive every metrics row.

A member defines `Config`, `open_sink(config, about) -> Sink` and `destination(config) -> str`, which says where the rows go (`online` or
`offline`, then the place): a run's rows are sent once to each destination.

Optional: `MODULES`, the packages that it needs, and `EXTRA`, the extra of this package that installs them.

The store's `metrics.jsonl` is the only thing a run writes. A separate process follows these files and feeds the trackers (`_follow`), so
that a tracker which fails, hangs or eats memory cannot disturb a run; `harness sync` sends afterwards what did not arrive.
Importing a member imports neither wandb nor TensorBoard.

May import: configuration, store.
"""
