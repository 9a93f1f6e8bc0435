"""Methods that run inside vLLM's workers when weights change; vLLM finds the class by its name (`worker_extension_cls`)."""

from collections.abc import Iterable
from typing import Any

import torch

from harness.rollout.weight_file import read_weights


class PolicyWeights:
    def take_policy_weights(self: Any, weights: Iterable[tuple[str, torch.Tensor]] | None, path: str | None) -> None:
        """Replace all weights in place, with tensors under `transformers` names or with those of a `weight_file`."""
        if path is not None:
            weights = read_weights(path).items()
        self.reload_weights(weights_iterator=weights)
        repack_tied_head(self.model_runner.get_model())


def repack_tied_head(model: Any) -> None:
    """Pack a tied output projection again: `reload_weights` updates the embedding and leaves its packed copy for CPUs as it was.

    Where nothing was packed (a GPU, untied embeddings) this computes what is there already.
    """
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod, VocabParallelEmbedding

    for module in model.modules():
        plain = isinstance(getattr(module, "quant_method", None), UnquantizedEmbeddingMethod)
        if isinstance(module, VocabParallelEmbedding) and plain:
            module.quant_method.process_weights_after_loading(module)
