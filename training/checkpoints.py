"""Checkpoints of a run in progress, and the moving average that is kept in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def write(path: Path, **state: Any) -> None:
    """Write, then rename: a killed run leaves the last whole checkpoint."""
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.rename(path)


def read(path: Path) -> dict[str, Any]:
    """What `write` wrote."""
    state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    return state


class MovingAverage:
    """Exponential moving average of a module's weights, with a faster start."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.state = {name: value.detach().clone() for name, value in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take in the module's present weights."""
        self.updates += 1
        share = 1 - min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, value in module.state_dict().items():
            self.state[name].lerp_(value, share)

    def load(self, state: dict[str, Tensor]) -> None:
        """Continue a saved average."""
        self.updates = 10_000
        for name, value in state.items():
            self.state[name].copy_(value)
