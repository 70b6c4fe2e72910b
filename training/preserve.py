"""Keep the codec's encoder small enough to commit, so that a new machine can go on with the same codes.

    preserve.py pack WORK/latent.pt encoder.npz
    preserve.py unpack encoder.npz VOICE WORK

Weights in 8 bits, a scale for each output channel; everything else is in the voice's own folder. Unpacked, `latent.pt`
and `vocoder.pt` are what train_decoder.py starts from, `latent.pt` is encode.py's, and train_talker.py goes on with
`--start WORK/talker.start.pt`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from checkpoints import read, write
from codec_encoder import Codec
from safetensors.torch import load_file
from torch import Tensor


def pack(latent: Path, out: Path) -> None:
    """The encoder of a train_latent.py checkpoint, as int8 (float16 where a tensor is one-dimensional)."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in read(latent)["codec"].items():
        if not name.startswith("encoder."):
            continue
        if value.dim() == 1:
            arrays[name] = value.half().numpy()
            continue
        scale = value.abs().flatten(1).amax(1).clamp(min=1e-8) / 127
        arrays[name] = (value / over(scale, value)).round().to(torch.int8).numpy()
        arrays[name + ".scale"] = scale.numpy()
    np.savez_compressed(out, **arrays)
    print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def unpack(packed: Path, voice: Path, work: Path) -> None:
    """Checkpoints that the trainers can start from: this encoder, and the voice's own weights."""
    arrays = {name: torch.from_numpy(value) for name, value in np.load(packed).items()}
    codec = Codec()
    state = codec.state_dict()
    for name, value in arrays.items():
        if not name.endswith(".scale"):
            scale = arrays.get(name + ".scale")
            state[name] = value.float() if scale is None else value.float() * over(scale, value)
    decoder = _floats(load_file(voice / "speech_tokenizer" / "model.safetensors"))
    codec.load_state_dict(state | decoder)
    write(work / "latent.pt", codec=codec.state_dict())
    write(work / "vocoder.pt", vocoder=codec.decoder.decoder.state_dict())
    spoken = _floats(load_file(voice / "model.safetensors"))
    write(work / "talker.start.pt", voice={trained(name): value for name, value in spoken.items()})


def trained(name: str) -> str:
    """The trainer's name of a published key."""
    inner = name.removeprefix("talker.code_predictor.")
    return name if inner == name else f"predictor.{inner}"


def _floats(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.float() for name, value in tensors.items()}


def over(scale: Tensor, like: Tensor) -> Tensor:
    """scale [N], shaped to multiply `like` [N, ...]."""
    return scale.view(-1, *[1] * (like.dim() - 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sides = parser.add_subparsers(required=True)
    packing = sides.add_parser("pack")
    packing.add_argument("latent", type=Path)
    packing.add_argument("out", type=Path)
    unpacking = sides.add_parser("unpack")
    unpacking.add_argument("packed", type=Path)
    unpacking.add_argument("voice", type=Path)
    unpacking.add_argument("work", type=Path)
    args = parser.parse_args()
    if hasattr(args, "latent"):
        pack(args.latent, args.out)
    else:
        unpack(args.packed, args.voice, args.work)


if __name__ == "__main__":
    main()
