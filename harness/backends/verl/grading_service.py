"""Grading for processes of another environment: one JSON object a line in, one out, until the input ends.

In `{"response", "gold", "problem", "truncated"}`, out `{"correct", "answered"}`. Started by `reward_plugin` with our
interpreter, so that verl's environment needs nothing of ours and grades exactly as the built-in trainer does.
"""

import json
import sys

from harness.verify import MathVerifier, VerifierConfig


def main(rules: str) -> int:
    """Serve; `rules` is a JSON object of `VerifierConfig`'s fields."""
    verifier = MathVerifier(VerifierConfig(**json.loads(rules)))
    try:
        for line in sys.stdin:
            request = json.loads(line)
            verdict = verifier.verify(**request)
            reply = {"correct": verdict.correct, "answered": verdict.answer is not None}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
    finally:
        verifier.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
