"""The verbs of the command line. A member's docstring is its help; it defines `ARGUMENTS`, and `run(options) -> exit code` where it acts.

`ARGUMENTS` maps the name of an argument, or its flags with a space between, to what `argparse.ArgumentParser.add_argument` takes beside it.
A verb that answers a question defines instead of `run` the dataclass `Answer`, `answer(options) -> Answer` and `show(answer, options)`;
`--json` and its schema follow from these.

May import: analysis, configuration, evaluation, exchange, execution, experiment, explain, model, problems, rollout,
store, verify.
"""
