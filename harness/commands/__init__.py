"""The verbs of the command line. A member's docstring is its help; it defines `arguments(parser)` and `run(options) -> exit code`."""
