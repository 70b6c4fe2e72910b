"""Keep the codec's encoder small enough to commit, so that a new machine can go on with the same codes.

    preserve.py pack WORK/latent.pt encoder.npz
    preserve.py unpack encoder.npz VOICE WORK/latent.pt

Weights in 8 bits, a scale for each output channel; the rest of the codec is in the voice's own folder.
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


def unpack(packed: Path, voice: Path, out: Path) -> None:
    """A checkpoint that train_decoder.py and encode.py can start from: this encoder, and the voice's decoder."""
    arrays = {name: torch.from_numpy(value) for name, value in np.load(packed).items()}
    codec = Codec()
    state = codec.state_dict()
    for name, value in arrays.items():
        if not name.endswith(".scale"):
            scale = arrays.get(name + ".scale")
            state[name] = value.float() if scale is None else value.float() * over(scale, value)
    decoder = load_file(voice / "speech_tokenizer" / "model.safetensors")
    codec.load_state_dict(state | {name: value.float() for name, value in decoder.items()})
    write(out, codec=codec.state_dict())


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
    unpacking.add_argument("out", type=Path)
    args = parser.parse_args()
    if hasattr(args, "latent"):
        pack(args.latent, args.out)
    else:
        unpack(args.packed, args.voice, args.out)


if __name__ == "__main__":
    main()
