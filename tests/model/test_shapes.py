"""Sizes from the table of shapes against transformers' own models, published totals, and enumeration."""

from __future__ import annotations

import json

import pytest
import torch

from harness.base_policy import pretrained
from harness.model.shapes import SHAPES, from_config, shape_of

# The number of parameters that the model's page on the Hub shows.
PUBLISHED = {
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "llama-3.2-1b": 1_235_814_400,
    "olmo3-7b": 7_298_011_136,
}


def on_meta(values: dict[str, object]) -> torch.nn.Module:
    """The transformers model of a shape, without memory."""
    from transformers import AutoConfig, AutoModelForCausalLM

    values = dict(values)
    values.pop("rope_theta")
    config = AutoConfig.for_model(values.pop("model_type"), **values, eos_token_id=None, pad_token_id=None)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_parameters_are_those_of_the_transformers_model_and_the_published_ones(name):
    shape, model = from_config(SHAPES[name]), on_meta(SHAPES[name])
    assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert shape.parameters == PUBLISHED.get(name, shape.parameters)
    layer = model.model.layers[0]
    assert shape.layer_parameters == sum(parameter.numel() for parameter in layer.parameters())
    assert shape.tied == (model.lm_head.weight is model.model.embed_tokens.weight)


def test_a_local_folder_tells_its_own_shape(tmp_path):
    values = {**SHAPES["qwen2.5-0.5b"], "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert shape_of(pretrained.Config(path=str(tmp_path))) == from_config(values)


def test_names_on_the_hub_need_no_network():
    assert shape_of(pretrained.Config(path="Qwen/Qwen2.5-32B")).parameters == PUBLISHED["qwen2.5-32b"]
    assert shape_of(pretrained.Config(path="someone/else")) is None
    assert from_config({"model_type": "mamba"}) is None
