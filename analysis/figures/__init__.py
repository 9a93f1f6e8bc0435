"""Figures of an experiment: vector PDF and SVG plus PNG, the same bytes from the same data."""
