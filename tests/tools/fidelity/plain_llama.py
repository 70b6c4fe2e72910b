"""A Llama in plain fp32 PyTorch: one sequence, no cache."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F


class PlainLlama:
    """The checkpoint in a folder, or weights in place of its own."""

    def __init__(self, folder: Path, weights: Mapping[str, Tensor] | None = None) -> None:
        self._config = json.loads((folder / "config.json").read_text())
        files = sorted(folder.glob("*.safetensors"))
        self._weights = weights or {name: value for file in files for name, value in load_file(file).items()}
        #: what each linear layer and the head were given the last time
        self.given: dict[str, Tensor] = {}

    def logprobs(self, ids: Sequence[int]) -> Tensor:
        """Of the token after each position, [T, V] float32."""
        table = self._weights["model.embed_tokens.weight"].float()
        x = F.embedding(torch.tensor(ids), table)
        for number in range(self._config["num_hidden_layers"]):
            x = self._layer(f"model.layers.{number}", x)
        self.given["lm_head"] = x = self._norm("model.norm", x)
        return (x @ self._weights.get("lm_head.weight", table).float().T).log_softmax(-1)

    def greedy(self, ids: Sequence[int], tokens: int, stops: Sequence[int]) -> list[int]:
        made: list[int] = []
        while len(made) < tokens and not (made and made[-1] in stops):
            made.append(int(self.logprobs([*ids, *made])[-1].argmax()))
        return made

    def _layer(self, name: str, x: Tensor) -> Tensor:
        # x: [T, H] float32
        y = self._norm(f"{name}.input_layernorm", x)
        heads, groups = self._config["num_attention_heads"], self._config["num_key_value_heads"]
        q, k, v = (self._linear(f"{name}.self_attn.{part}_proj", y) for part in "qkv")
        q = self._turned(q.unflatten(-1, (heads, -1)))
        k = self._turned(k.unflatten(-1, (groups, -1))).repeat_interleave(heads // groups, 1)
        v = v.unflatten(-1, (groups, -1)).repeat_interleave(heads // groups, 1)
        mixed = F.scaled_dot_product_attention(*(part.transpose(0, 1) for part in (q, k, v)), is_causal=True)
        x = x + self._linear(f"{name}.self_attn.o_proj", mixed.transpose(0, 1).flatten(1))
        y = self._norm(f"{name}.post_attention_layernorm", x)
        gate, up = (self._linear(f"{name}.mlp.{part}_proj", y) for part in ("gate", "up"))
        return x + self._linear(f"{name}.mlp.down_proj", F.silu(gate) * up)

    def _turned(self, x: Tensor) -> Tensor:
        # x: [T, heads, D] float32
        half = x.shape[-1] // 2
        angle = torch.arange(len(x))[:, None, None] * self._config["rope_theta"] ** (-torch.arange(half) / half)
        first, second = x[..., :half], x[..., half:]
        return torch.cat(
            [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], dim=-1
        )

    def _linear(self, name: str, x: Tensor) -> Tensor:
        self.given[name] = x
        return x @ self._weights[f"{name}.weight"].float().T

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self._weights[f"{name}.weight"].float(), self._config["rms_norm_eps"])
