"""Exit codes of a worker besides 0 (finished). Any other one means that it crashed."""

EXIT_STORE = 74  # EX_IOERR: the disk is full or read-only, which ends the whole sweep
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: it was asked to stop and has written a checkpoint; of a command: repeat it
EXIT_REFUSED = 78  # EX_CONFIG: its configuration or files are wrong; another attempt would end the same way
