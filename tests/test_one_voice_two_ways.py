"""The same engine cores through stages and in process: one stream at equal threads has the same codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ouzel.config import DeployConfig, load_config
from ouzel.engines import talker
from ouzel.engines.code2wav import Code2WavCore
from ouzel.in_process import InProcess, Wishes
from ouzel.orchestrator import Omni
from ouzel.stages.core import SamplingWishes
from ouzel.stats.steps import NULL, Stats
from ouzel.stats.timeline import InitTimeline
from tiny_cores import SEEDS

TEXT = "Hello there, the World! Is 12 a user?"
HERE = Path(__file__)


class CodesAsSound:
    """A codec that gives the codes themselves."""

    def init_state(self) -> None:
        return None

    def step(self, codes: torch.Tensor, state: None) -> tuple[torch.Tensor, None]:
        # codes: [1, G, T] -> [1, G * T]
        return codes.mT.reshape(1, -1).float(), None


def code2wav(folder: Path, config: DeployConfig, timeline: InitTimeline, stats: Stats = NULL) -> Code2WavCore:
    """The factory of such a stage."""
    return Code2WavCore(CodesAsSound(), stats=stats)


def in_process(folder: Path, config: DeployConfig) -> NDArray[np.float32]:
    timeline = InitTimeline("test")
    torch.set_num_threads(1)
    voice = InProcess(
        talker.build(folder, config, timeline),
        code2wav(folder, config, timeline),
        limits=config.limits,
        chunk_min_frames=1,
        mode="normalize",
        sample_rate=24_000,
    )
    spoken = voice.speak(TEXT, Wishes(sampling=SamplingWishes(seed=SEEDS[0])))
    return np.concatenate([sound.samples for sound in spoken])


def through_stages(folder: Path, config: DeployConfig) -> NDArray[np.float32]:
    with Omni(voice=folder, config=config) as omni, omni.speak(TEXT, seed=SEEDS[0]) as speech:
        return np.concatenate([chunk.samples for chunk in speech])


@pytest.mark.parametrize("placement", ["side_by_side", "colocate"])
def test_the_codes_are_identical(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch, placement: str) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{HERE.parent}:{HERE.parent / 'oracle'}")
    settings = {"code2wav.factory": f"{HERE.stem}:code2wav", "orchestrator.placement": placement}
    config = load_config(("qwen3_tts",), flags=settings, environ={}).config
    codes = in_process(tiny_voice, config)
    assert len(codes) > 100 and len(set(codes.tolist())) > 20
    np.testing.assert_array_equal(through_stages(tiny_voice, config), codes)
