from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import ouzel
from ouzel.config import DeployConfig, DeviceProbe, load_config
from ouzel.config.settings import SETTINGS
from ouzel.scheduling import KvGeometry, derive_overrides

PUBLISHED = KvGeometry(layers=28, kv_heads=8, head_dim=128, bytes_per_value=2)


def test_every_setting_has_a_default_of_its_own_type() -> None:
    for setting in SETTINGS.values():
        assert setting.convert(setting.default, "default") == setting.default


def test_nothing_can_be_changed_after_the_load() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DeployConfig().talker.threads = 2  # type: ignore[misc]


def test_what_the_device_derives_are_settings_of_the_schema() -> None:
    derived = derive_overrides(DeviceProbe(2 << 30, 1, "aarch64", frozenset()), PUBLISHED).settings()
    config = load_config(["qwen3_tts"], derive=lambda _: derived, environ={}).config
    assert config.orchestrator.placement == "colocate"
    assert (config.talker.max_num_seqs, config.talker.chunk_min_frames) == (2, 4)
    assert config.talker.prefill_margin_ms == 320.0


def test_loading_a_profile_imports_neither_torch_nor_pydantic() -> None:
    script = (
        "import sys; from ouzel.config import load_config; import ouzel.scheduling, ouzel.transfer;"
        "load_config(['qwen3_tts'], environ={});"
        "print(sorted({'torch', 'pydantic', 'asyncio'} & set(sys.modules)))"
    )
    environ = {"PYTHONPATH": str(Path(ouzel.__file__).parents[1])}
    found = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
