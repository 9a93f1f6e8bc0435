"""One self-contained HTML page per experiment: no network, all model output escaped."""
