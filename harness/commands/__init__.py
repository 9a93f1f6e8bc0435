"""The verbs of the command line. A member's docstring is its help; it defines `run(options) -> exit code` and `ARGUMENTS`.

`ARGUMENTS` maps the name of an argument, or its flags with a space between, to what `argparse.ArgumentParser.add_argument` takes beside it.

May import: analysis, configuration, evaluation, exchange, execution, experiment, explain, model, problems, rollout, search,
store, tracking, verify.
"""
