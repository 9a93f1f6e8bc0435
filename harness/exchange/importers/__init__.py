"""Runs of other trainers: one module per format of logs, read into the same store and marked as foreign.

A member module defines

    read(path: Path, run: str | None) -> Log

which raises `ForeignLogError` naming the file and the fix, and, where the format is a trainer's own,

    TRAINER: Trainer    its names of metrics, scores and steps, and what does not mean the same as ours

A format without one (wandb, TensorBoard) takes `trainer=` too: whose names to read by, None for the trainer that knows most of them.
The rest (units, identity, manifest, plan) is common to all; `_folder` makes one experiment of a folder of runs.
"""
