r"""The testbed's imperfect teacher, which writes a solution to a chain in one of three styles and with several kinds of error; its letters.

Styles: direct `\boxed{1}`; terse `5,5,3,\boxed{3}`; verbose `7+8=5,5*3=5,5-2=3,\boxed{3}`. Errors: slips (noise, which RL removes by
sharpening), misconceptions (a fixed set of facts it mostly gets wrong: the rare but right tokens where exploration matters), a second
careful pass after `?` (long and accurate, what a cap truncates), and babble (repeats its last step: long and useless).
"""

import functools
import math
import random
from typing import Any

from harness.problems.benchmarks.arithmetic import OPERATORS, PAD, Chain, apply
from harness.testbed.recipe import Demonstrator

OPEN, CLOSE, RECHECK, EOS = r"\boxed{", "}", "?", "<eos>"
_BABBLE_REPEATS = 40


@functools.cache
def fact(
    operator: str, value: int, operand: int, modulus: int, share: float, low: float, high: float
) -> tuple[float, int]:
    """(Probability that the demonstrator knows this fact, the wrong value it gives otherwise): fixed by a hash, not by a seed."""
    rng = random.Random(f"{operator}{value}{operand}")
    right = apply(value, operator, operand, modulus)
    probability = 1.0
    if rng.random() < share:
        probability = math.exp(rng.uniform(math.log(low), math.log(high)))
    return probability, (right + rng.choice((1, -1, 2, -2))) % modulus


def demonstrate(rng: random.Random, chain: Chain, teacher: Demonstrator) -> str:
    """One solution with its end-of-text token; the last value it reaches goes into the box, right or wrong."""
    style = rng.random()
    if style < teacher.direct:
        value = chain.start
        for operator, operand in chain.operations:
            value = _recall(rng, value, operator, operand, chain.modulus, teacher, slip=0.0)
        return f"{OPEN}{value}{CLOSE}{EOS}"
    verbose = style >= teacher.direct + teacher.terse
    slip = teacher.slip if verbose else teacher.slip_terse
    steps: list[str] = []
    while True:
        value = chain.start
        for operator, operand in chain.operations:
            result = _recall(rng, value, operator, operand, chain.modulus, teacher, slip)
            steps.append(f"{value}{operator}{operand}={result}," if verbose else f"{result},")
            value = result
        if rng.random() < teacher.babble:
            steps += [steps[-1]] * _BABBLE_REPEATS
            break
        if rng.random() >= teacher.recheck:
            break
        steps.append(RECHECK)
        slip = 0.0  # a recheck is careful: misconceptions stay, slips do not
    return f"{''.join(steps)}{OPEN}{value}{CLOSE}{EOS}"


def _recall(
    rng: random.Random, value: int, operator: str, operand: int, modulus: int, teacher: Demonstrator, slip: float
) -> int:
    share, low, high = teacher.misconceptions, teacher.misconception_low, teacher.misconception_high
    probability, wrong = fact(operator, value, operand, modulus, share, low, high)
    if probability < 1 and rng.random() > probability:
        return wrong
    right = apply(value, operator, operand, modulus)
    return (right + rng.choice((1, -1))) % modulus if rng.random() < slip else right


PADDING = "<pad>"
VOCABULARY = [PADDING, EOS, PAD, *"0123456789", *OPERATORS, ":", ",", "=", RECHECK, OPEN, CLOSE]


def testbed_tokenizer() -> Any:
    """A `PreTrainedTokenizerFast` over `VOCABULARY`; any other character is an error, not an unknown token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(VOCABULARY)}, unk_token=PADDING))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"\\boxed\{|[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(PADDING, special=True), AddedToken(EOS, special=True)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PADDING, eos_token=EOS, clean_up_tokenization_spaces=False
    )
