from __future__ import annotations

import pytest

from ouzel.errors import RequestError
from ouzel.scheduling import frame_limit


@pytest.mark.parametrize(
    ("letters", "rate", "frames"),
    [(0, 15.0, 25), (15, 15.0, 57), (60, 15.0, 150), (60, 30.0, 88), (4096, 15.0, 8559)],
)
def test_the_limit_follows_the_length_of_the_text(letters: int, rate: float, frames: int) -> None:
    assert frame_limit(letters, letters_per_second=rate) == frames


@pytest.mark.parametrize("cap", [1, 10_000])
def test_an_explicit_cap_is_honoured_shorter_or_longer(cap: int) -> None:
    assert frame_limit(60, user_cap=cap) == cap


def test_a_cap_below_one_is_a_request_error() -> None:
    with pytest.raises(RequestError, match="max_frames 0: give at least 1"):
        frame_limit(60, user_cap=0)
