"""Tiny random models of any type in transformers, in float32 and without a tokenizer."""

from typing import Any


def tiny(model_type: str, **options: Any) -> Any:
    """A causal language model with 50 tokens; `options` go into its configuration."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(
        model_type,
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=4,
        **{"num_hidden_layers": 2, "num_key_value_heads": 2, **options},
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
