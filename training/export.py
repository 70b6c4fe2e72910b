"""Write the voice as a checkpoint folder in the published layout, in half precision."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from pathlib import Path

import torch
from geometry import CODEC, CONFIG, FRAME, GENERATION, GROUPS, RATE
from safetensors.torch import save_file
from torch import Tensor

HALF = torch.float16  # of the same size, bfloat16 loses eight times as much


def codec_config() -> dict[str, object]:
    """speech_tokenizer/config.json; without an encoder, so this voice doesn't clone."""
    decoder = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(CODEC).items()}
    return {
        "model_type": "qwen3_tts_tokenizer_12hz",
        "input_sample_rate": RATE,
        "output_sample_rate": RATE,
        "encode_downsample_rate": FRAME,
        "decode_upsample_rate": FRAME,
        "encoder_valid_num_quantizers": GROUPS,
        "decoder_config": decoder,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("talker", type=Path, help="checkpoint of train_talker.py")
    parser.add_argument("decoder", type=Path, help="checkpoint of train_decoder.py")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    voice = torch.load(args.talker, weights_only=True)["average"]
    codec = torch.load(args.decoder, weights_only=True)["average"]
    folder = args.out / "speech_tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    main_weights = {published(name): half(value) for name, value in voice.items() if not name.startswith("phones.")}
    save_file(main_weights, args.out / "model.safetensors", metadata={"format": "pt"})
    settle_codebooks(codec)
    save_file(
        {f"decoder.{n}": half(v) for n, v in codec.items()}, folder / "model.safetensors", metadata={"format": "pt"}
    )
    for path, content in (
        (args.out / "config.json", CONFIG),
        (args.out / "generation_config.json", GENERATION),
        (folder / "config.json", codec_config()),
    ):
        path.write_text(json.dumps(content, indent=2) + "\n")
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        shutil.copy(args.tokenizer / name, args.out / name)
    for path in args.out.rglob("*.safetensors"):
        path.chmod(0o644)  # safetensors writes for its owner alone
    size = sum(p.stat().st_size for p in args.out.rglob("*") if p.is_file())
    print(f"{args.out}: {size / 1e6:.1f} MB")


def published(name: str) -> str:
    """talker.* stays; predictor.* is talker.code_predictor.* in the checkpoint."""
    return "talker.code_predictor." + name.removeprefix("predictor.") if name.startswith("predictor.") else name


def settle_codebooks(codec: dict[str, Tensor]) -> None:
    """Divide the running sums out, so that half precision rounds the entries themselves: usage becomes 1."""
    for name in [n for n in codec if n.endswith("cluster_usage")]:
        sums = name.replace("cluster_usage", "embedding_sum")
        codec[sums] = codec[sums] / codec[name].clamp(min=1e-5)[:, None]
        codec[name] = torch.ones_like(codec[name])


def half(value: Tensor) -> Tensor:
    return value.to(HALF).contiguous()


if __name__ == "__main__":
    main()
