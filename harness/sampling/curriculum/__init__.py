"""Prompt curricula. A member defines `Config` and `build(config, problems: int, seed: int) -> Curriculum` (see `_common`).

A curriculum that needs the initial policy's pass rates has `calibration_samples` and `calibrate(pass_rates)`; the loop
measures and calls it once, before the first step.
"""
