"""What is said before vLLM is imported."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_llama import write_llama

from ouzel.config.schema import DeployConfig, LlmConfig
from ouzel.engines.llm import build
from ouzel.engines.llm.build import uncollected
from ouzel.engines.llm.checkpoint import read_checkpoint
from ouzel.engines.llm.memory import BASE_BYTES, available_bytes, check_memory
from ouzel.errors import CheckpointError, ConfigError
from ouzel.stats.timeline import InitTimeline

GIB = 1 << 30


def starting(folder: Path, **settings: int) -> object:
    return build(folder, DeployConfig(llm=LlmConfig(**settings)), InitTimeline("llm"))  # type: ignore[arg-type]


def test_what_an_import_makes_is_left_out_of_collections() -> None:
    gc.unfreeze()
    with pytest.raises(ImportError), uncollected():
        assert not gc.isenabled()
        raise ImportError
    assert gc.isenabled() and gc.get_freeze_count() > 1000
    gc.unfreeze()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere is no folder; llm.model names a checkpoint folder"):
        starting(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.json", None, "config.json can't be read: No such file"),
        ("config.json", "{", "config.json is no JSON"),
        ("config.json", "[]", "config.json is no JSON object"),
        ("config.json", "{}", "names no architectures"),
        ("tokenizer_config.json", "{", "tokenizer_config.json is no JSON"),
        ("model.safetensors", None, "has no weights; expected"),
        ("model.safetensors", "no safetensors at all", "its header can't be read"),
    ],
)
def test_a_file_that_is_missing_or_torn(tmp_path: Path, file: str, content: str | None, words: str) -> None:
    path = write_llama(tmp_path / "model") / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(CheckpointError, match=words):
        starting(tmp_path / "model")


def test_weights_that_end_too_early(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "model") / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=f"is torn: it has {size - 1} bytes of {size}"):
        starting(tmp_path / "model")


def test_weights_are_counted_in_the_type_that_they_are_served_in(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "model")
    stored = (folder / "model.safetensors").stat().st_size
    half, whole = (read_checkpoint(folder, size).weights_bytes for size in (2, 4))
    assert whole == 2 * half and stored - 4096 < whole < stored


def test_memory_that_is_too_little_is_told_with_the_figures(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs 100000\.8\d GiB .*\(0.00 GiB weights, 100000.00 GiB llm.kv_cache"):
        starting(write_llama(tmp_path / "model"), kv_cache_bytes=100_000 * GIB)


def test_memory_that_is_just_enough_is_enough() -> None:
    check_memory(GIB, GIB, 2 * GIB + BASE_BYTES)
    with pytest.raises(ConfigError, match="2.00 GiB are available|are available"):
        check_memory(GIB, GIB, 2 * GIB + BASE_BYTES - 1)


def test_what_is_available_stays_within_the_control_group(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")
    assert available_bytes(tmp_path) == 4 * GIB
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{GIB}\n")
    assert available_bytes(tmp_path) == GIB


def test_a_template_comes_from_its_own_file_or_the_tokenizers(tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "model", "of the config")
    assert read_checkpoint(folder, 4).template == "of the config"
    several = [{"name": "tool_use", "template": "b"}, {"name": "default", "template": "a"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert read_checkpoint(folder, 4).template == "a"
    (folder / "chat_template.jinja").write_text("of the file")
    assert read_checkpoint(folder, 4).template == "of the file"


def test_a_model_is_named_by_its_folder_or_as_the_hub_names_it(tmp_path: Path) -> None:
    assert read_checkpoint(write_llama(tmp_path / "small"), 4).name == "small"
    cached = tmp_path / "models--org--small-1B" / "snapshots" / "0a1b2c"
    assert read_checkpoint(write_llama(cached), 4).name == "org/small-1B"


def test_neither_the_factory_nor_its_complaints_need_vllm(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from ouzel.config.schema import DeployConfig
from ouzel.engines.llm import build
from ouzel.errors import CheckpointError
from ouzel.stats.timeline import InitTimeline
try:
    build(Path({str(tmp_path / "nowhere")!r}), DeployConfig(), InitTimeline("llm"))
except CheckpointError:
    print({{"torch", "vllm"}} & sys.modules.keys() or "neither")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "neither\n"
