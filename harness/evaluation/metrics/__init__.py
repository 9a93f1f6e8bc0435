"""Exact metrics of graded samples: numbers in, numbers out. Imports nothing else of the harness."""
