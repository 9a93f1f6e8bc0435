"""Analyses of single experiments."""
