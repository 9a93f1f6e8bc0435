"""From a plan to finished runs: dispatch, supervisor, worker, progress, provenance.

May import: configuration, experiment, model, store, tracking, training.
"""
