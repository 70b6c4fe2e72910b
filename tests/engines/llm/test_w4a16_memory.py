"""What loading takes beside the weights in four bits: never the weights in floating point."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from running_stage import RunningStage

from ouzel.tools.make_checkpoint import Geometry, make_checkpoint

pytestmark = [pytest.mark.llm, pytest.mark.slow]

#: 226 million weights: 452 MB in bfloat16, 120 MB in four bits
GEOMETRY = Geometry(layers=4, hidden=2048, inner=4096, vocabulary=32768)
IN_BFLOAT16 = 452_000_000


def anonymous_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


class Watched(RunningStage):
    """Remembers the most that its process held while it started."""

    peak = 0

    def _until(self, wanted: object) -> object:  # type: ignore[override]
        pid, done = self._live._process.pid, threading.Event()  # type: ignore[attr-defined]

        def watch() -> None:
            while not done.wait(0.02):
                self.peak = max(self.peak, anonymous_bytes(pid))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            return super()._until(wanted)
        finally:
            done.set()
            watching.join()
            self.resident = anonymous_bytes(pid)


@pytest.mark.timeout(300)
def test_weights_in_floating_point_are_never_all_there(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "spark", GEOMETRY)
    settings = {"kv_cache_bytes": 64 << 20, "max_model_len": 1024}
    with Watched(folder, **settings) as plain:
        whole = plain.resident
    with Watched(folder, quantization="ouzel_w4a16", **settings) as stage:
        assert stage.peak - stage.resident < IN_BFLOAT16 / 3
        assert stage.peak < stage.resident * 1.3
        assert whole - stage.resident > IN_BFLOAT16 / 2
