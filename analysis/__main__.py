"""`python -m analysis`: see `analysis.command`."""

from harness.process import run_command

if __name__ == "__main__":
    run_command("analysis.command:main")
