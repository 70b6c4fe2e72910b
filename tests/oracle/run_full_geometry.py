"""The whole 0.6B geometry with seeded weights, official against ours, in fp32 (figures: docs/fidelity.md).

    oracle/bin/python tests/oracle/run_full_geometry.py official FOLDER
    .venv/bin/python tests/oracle/run_full_geometry.py ours FOLDER

The first writes a checkpoint of 3.6 GB into FOLDER where there is none, and the official answers beside it; the second
loads the same folder through the one real loading path and prints how far ours lie from them. Each needs about 8 GB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save_file as save_weights
from safetensors.torch import load_file, save_file

from seeded import seeded_weights
from tiny_prompts import CASES, FRAMES
from tiny_talker import GENERATION, config, dump, shapes, write_index, write_tokenizer

CASE = CASES["custom"]
ANSWERS = "official.safetensors"
SHARD = 200_000_000  # values

PUBLISHED = {
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
}


def full_config() -> dict[str, Any]:
    """The published numbers of 0.6B-CustomVoice, over the tiny text vocabulary's ids."""
    top = config("small", "custom_voice")
    talker = top["talker_config"]
    talker["code_predictor_config"] |= PUBLISHED | {
        "num_hidden_layers": 5,
        "vocab_size": 2048,
        "layer_types": ["full_attention"] * 5,
    }
    talker |= PUBLISHED | {
        "num_hidden_layers": 28,
        "vocab_size": 3072,
        "text_vocab_size": 151936,
        "text_hidden_size": 2048,
        "codec_pad_id": 2148,
        "codec_bos_id": 2149,
        "codec_eos_token_id": 2150,
        "codec_think_id": 2154,
        "codec_nothink_id": 2155,
        "codec_think_bos_id": 2156,
        "codec_think_eos_id": 2157,
        "codec_language_id": {"english": 2050},
        "spk_id": {"ryan": 3061},
        "spk_is_dialect": {"ryan": False},
    }
    talker["rope_scaling"]["mrope_section"] = [24, 20, 20]
    return top


def write_full(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    top = full_config()
    dump(folder / "config.json", top)
    dump(folder / "generation_config.json", GENERATION)
    write_tokenizer(folder)
    pending, placed, size = {}, {}, 0
    for name, shape in shapes(top).items():
        pending |= seeded_weights({name: shape})
        size += pending[name].size
        if size > SHARD:
            placed |= _write_shard(folder, len(set(placed.values())), pending)
            pending, size = {}, 0
    placed |= _write_shard(folder, len(set(placed.values())), pending)
    write_index(folder, placed)


def _write_shard(folder: Path, number: int, tensors: dict[str, Any]) -> dict[str, str]:
    file = f"model-{number:05}.safetensors"
    save_weights(tensors, folder / file)
    return dict.fromkeys(tensors, file)


def ask_official(folder: Path) -> None:
    import official

    if not (folder / "model.safetensors.index.json").exists():
        write_full(folder)
    model = official.load(folder)
    begin = time.perf_counter()
    run = official.run(model, CASE, FRAMES, minimum=FRAMES + 1)
    print(
        f"official: {(time.perf_counter() - begin) / FRAMES * 1000:.0f} ms a frame, {torch.get_num_threads()} threads"
    )
    save_file({name: tensor.contiguous().clone() for name, tensor in official.answers(run).items()}, folder / ANSWERS)


def compare_ours(folder: Path) -> None:
    from compare_talker import compare
    from ouzel.models.qwen3_tts.checkpoint import load_talker_side

    begin = time.perf_counter()
    speaker = load_talker_side(folder)
    print(f"loaded in {time.perf_counter() - begin:.1f} s")
    begin = time.perf_counter()
    figures = compare(speaker, CASE, load_file(folder / ANSWERS))
    print(f"ours: {(time.perf_counter() - begin) / FRAMES * 1000:.0f} ms a frame, {torch.get_num_threads()} threads")
    print(figures)


def main() -> None:
    sides: dict[str, Callable[[Path], None]] = {"official": ask_official, "ours": compare_ours}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=sides)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    sides[given.side](given.folder)


if __name__ == "__main__":
    main()
