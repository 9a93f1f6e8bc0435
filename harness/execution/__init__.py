"""From a plan to finished runs: dispatch, launchers, supervisor, worker, progress, provenance. Imports experiment, backends, store."""
