"""Trackers: other places that receive every metrics row.

A member defines `Config` and `open_sink(config, about)`. A sink is one run in one tracker: `log(step, metrics)` takes in one step,
`close(finished)` ends it. Both may raise: the run goes on without it.

Optional: `MODULES`, the packages that it needs; `EXTRA`, the extra of this package that installs them; `next_step` of a sink, the first
step that its place does not have: a resumed run is sent from there, by default from its beginning.

The store's `metrics.jsonl` is the only thing a run writes. A thread of the supervisor reads these files and feeds the trackers
(`_feed`), so that a tracker which fails or hangs cannot disturb a run. Importing a member does not import wandb.

May import: configuration, store.
"""

FUNCTIONS = ("open_sink",)  # of a member
