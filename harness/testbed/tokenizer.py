r"""The testbed's tokenizer: one token a character, `\boxed{` as one token, saved as an ordinary `tokenizers` file."""

from __future__ import annotations

from typing import Any

from harness.problems.benchmarks.arithmetic import OPERATORS, PAD
from harness.testbed.demonstrator import CLOSE, EOS, OPEN, RECHECK

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
