"""Answers from the result store: statistics, tables, figures, report. Imports no torch."""
