"""From a plan to finished runs: dispatch, launchers, supervisor, worker, progress, provenance.

May import: configuration, experiment, model, store, tracking, training.
"""
