"""What a linear layer is given while a text is read, by which the errors of its inputs count."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Activations", "Collector"]

#: rows that are kept as they are: enough to compare a few candidates by their outputs
KEPT_ROWS = 256


@dataclass(frozen=True, slots=True)
class Activations:
    """Statistics of a layer's K inputs."""

    mean_square: Tensor  # [K] float32
    mean_abs: Tensor  # [K] float32
    rows: Tensor  # [M, K] float32, the first of them
    second_moment: Tensor | None = None  # [K, K] float32, the mean of x xᵀ

    def scaled(self, scale: Tensor) -> Activations:
        """The same inputs, each divided by its scale [K]."""
        moment = self.second_moment
        return Activations(
            self.mean_square / scale.square(),
            self.mean_abs / scale,
            self.rows / scale,
            None if moment is None else moment / scale / scale[:, None],
        )


class Collector:
    """Sums up what `add` is given; the rows themselves aren't kept, but for the first ones."""

    def __init__(self, *, second_moment: bool = False) -> None:
        self._count = 0
        self._square = self._abs = torch.zeros(())
        self._rows: list[Tensor] = []
        self._kept = 0
        self._moment: Tensor | None = torch.zeros(()) if second_moment else None

    def add(self, x: Tensor) -> None:
        # x: [T, K] of any floating-point type
        x = x.detach().float()
        self._count += len(x)
        self._square = self._square + x.square().sum(0)
        self._abs = self._abs + x.abs().sum(0)
        if self._moment is not None:
            self._moment = self._moment + x.t() @ x
        if (room := KEPT_ROWS - self._kept) > 0:
            self._rows.append(x[:room].clone())
            self._kept += len(self._rows[-1])

    def activations(self) -> Activations:
        """Of all that was added: at least one row."""
        count = self._count
        moment = None if self._moment is None else self._moment / count
        return Activations(self._square / count, self._abs / count, torch.cat(self._rows), moment)
