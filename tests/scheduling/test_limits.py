from __future__ import annotations

import pytest

from ouzel.scheduling import frame_limit


@pytest.mark.parametrize(
    ("letters", "rate", "frames"),
    [(0, 15.0, 25), (15, 15.0, 57), (60, 15.0, 150), (60, 30.0, 88), (4096, 15.0, 8559)],
)
def test_the_limit_follows_the_length_of_the_text(letters: int, rate: float, frames: int) -> None:
    assert frame_limit(letters, letters_per_second=rate) == frames
