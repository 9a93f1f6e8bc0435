"""How much of a run's data the difference between two arms touches: measures, thresholds, words, and which difference has which measure.

`training` records the step metrics, `experiment` says beforehand what is known, `analysis` shows what was found.

May import: configuration.
"""
