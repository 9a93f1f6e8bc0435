"""The share of a run's data that the difference between two arms touches: measures, thresholds, words, and the rules that choose them.

`training` records the step metrics, `experiment` says beforehand what is known, `analysis` shows what was found.

May import: configuration.
"""
