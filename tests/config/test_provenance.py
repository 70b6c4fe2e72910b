from __future__ import annotations

from pathlib import Path

from ouzel.config import load_config, render_config, to_yaml
from ouzel.config.settings import SETTINGS


def test_every_setting_is_shown_with_its_value_and_source() -> None:
    effective = load_config(["qwen3_tts"], environ={"OUZEL_TALKER__CPUS": "[1]"}, flags={"gateway.port": 0})
    lines = render_config(effective).splitlines()
    assert [line.split()[0] for line in lines] == list(SETTINGS)
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert shown["gateway.port"].split() == ["0", "flag"]
    assert shown["talker.cpus"].split() == ["[1]", "environment", "OUZEL_TALKER__CPUS"]
    assert shown["talker.chunk_frames"].startswith("[2, 4, 8, 16, 25]  ")
    assert shown["talker.kv_cache_bytes"].split() == ["null", "default"]
    assert shown["gateway.host"].split()[1].startswith("deploy/edge/server.yaml:")


def test_a_copy_written_elsewhere_means_the_same(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("talker: {threads: 5, cpus: [0, 1]}\n")
    overlay = tmp_path / "site" / "overlay.yaml"
    overlay.parent.mkdir()
    overlay.write_text("base_config: ../base.yaml\ngateway: {cors_origins: ['*']}\n")
    effective = load_config(deploy_config=overlay, environ={})
    assert effective.config.talker.threads == 5
    copy = tmp_path / "far" / "away.yaml"
    copy.parent.mkdir()
    copy.write_text(to_yaml(effective))
    assert load_config(deploy_config=copy, environ={}).config == effective.config
