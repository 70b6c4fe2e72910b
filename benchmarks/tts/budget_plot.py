"""The frame budget over time as a PNG: a bar for each chunk, as wide as its frames, stacked by phase, against 80 ms."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLOURS", "Bar", "write_plot"]

BUDGET_MS = 80.0
#: as on the demo page
COLOURS = {
    "prefill": 0x8D6BB8, "backbone": 0x1F6F78, "sample": 0x6FB7A9, "predictor": 0x3F9BD1, "hop": 0xD9A441,
    "codec": 0xCF6A4C, "encode": 0x9AA86B, "send": 0xB58AA5, "schedule": 0x7F8C8D, "update": 0xA5ADB0,
    "dispatch": 0xC2B8A3, "other": 0xC9C4B8,
}  # fmt: skip
_PAPER, _GRID, _INK, _ALARM = 0xFFFDF8, 0xE4E0D6, 0x6C757A, 0xB3402F
_WIDTH, _LANE, _LEFT, _GAP = 1200, 260, 40, 24
#: three bits for each of five rows
_DIGITS = {
    "0": (7, 5, 5, 5, 7), "1": (2, 6, 2, 2, 7), "2": (7, 1, 7, 4, 7), "3": (7, 1, 7, 1, 7), "4": (5, 5, 7, 1, 1),
    "5": (7, 4, 7, 1, 7), "6": (7, 4, 7, 5, 7), "7": (7, 1, 2, 2, 2), "8": (7, 5, 7, 5, 7), "9": (7, 5, 7, 1, 7),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bar:
    """One chunk."""

    frame: int
    frames: int
    phases_ms: Mapping[str, float]


def write_plot(path: Path, lanes: Sequence[Sequence[Bar]]) -> None:
    """One lane for each utterance, all on the same axes; ticks every 20 ms and every second of speech."""
    most = max([100.0, *(1.05 * sum(bar.phases_ms.values()) / bar.frames for lane in lanes for bar in lane)])
    frames = max([25, *(bar.frame + bar.frames for lane in lanes for bar in lane)])
    page = np.zeros((len(lanes) * (_LANE + _GAP) + _GAP, _WIDTH, 3), np.uint8)
    _fill(page, slice(None), slice(None), _PAPER)
    for number, lane in enumerate(lanes):
        _draw(page[_GAP + number * (_LANE + _GAP) :][: _LANE + _GAP // 2], lane, most, frames)
    path.write_bytes(_png(page))


def _draw(area: NDArray[np.uint8], lane: Sequence[Bar], most: float, frames: int) -> None:
    def across(frame: float) -> int:
        return _LEFT + round((_WIDTH - _LEFT - 8) * frame / frames)

    def up(ms: float) -> int:
        return _LANE - 1 - round((_LANE - 8) * ms / most)

    for tick in range(0, int(most) + 1, 20):
        _fill(area, slice(up(tick), up(tick) + 1), slice(_LEFT, None), _GRID)
        _write(area, str(tick), up(tick) - 2, _LEFT - 6 - 8 * len(str(tick)))
    for bar in lane:
        reached = 0.0
        for phase, ms in bar.phases_ms.items():
            top = reached + ms / bar.frames
            place = slice(across(bar.frame), across(bar.frame + bar.frames) - 1)
            _fill(area, slice(up(top), up(reached)), place, COLOURS.get(phase, COLOURS["other"]))
            reached = top
    for second in range(int(frames * BUDGET_MS / 1000) + 1):
        _fill(area, slice(_LANE, _LANE + 4), slice(across(second * 12.5), across(second * 12.5) + 1), _INK)
    _fill(area, slice(up(BUDGET_MS), up(BUDGET_MS) + 2), slice(_LEFT, None), _ALARM)


def _fill(area: NDArray[np.uint8], rows: slice, columns: slice, colour: int) -> None:
    area[rows, columns] = colour >> 16, colour >> 8 & 255, colour & 255


def _write(area: NDArray[np.uint8], digits: str, row: int, column: int) -> None:
    for place, digit in enumerate(digits):
        for line, bits in enumerate(_DIGITS[digit]):
            for dot in range(3):
                if bits >> (2 - dot) & 1:
                    y, x = max(row, 0) + 2 * line - 2, column + 8 * place + 2 * dot
                    _fill(area, slice(max(y, 0), y + 2), slice(x, x + 2), _INK)


def _png(page: NDArray[np.uint8]) -> bytes:
    height, width, _ = page.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), page.reshape(height, -1)], axis=1)

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows.tobytes())) + part(b"IEND", b"")
    )
