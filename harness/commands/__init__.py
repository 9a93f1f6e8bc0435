"""The verbs of the command line. A member's docstring is its help; it defines `arguments(parser)` and `run(options) -> exit code`.

May import: analysis, configuration, evaluation, exchange, execution, experiment, explain, model, problems, rollout, search,
statistics, store, tracking, verify.
"""
