"""Tasks of a policy: problems, the benchmarks that hold them, and the hygiene of their data.

May import: configuration, store, verify.
"""
