"""How long the streaming codec decoder takes for a frame (80 ms of sound), by geometry, threads and chunk.

    python benchmarks/tts/codec_bench.py --json codec.json

Random weights. Each round goes through all arms, so that what else the machine does falls on all of them; medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from pathlib import Path
from statistics import median

import torch
from torch import nn

from ouzel.models.qwen3_tts.codec_config import CodecDecoderConfig
from ouzel.models.qwen3_tts.codec_decoder import CodecDecoder
from ouzel.models.qwen3_tts.codec_stream import DecoderState, StreamingDecoder

FRAME_MS = 80
CHUNKS = (1, 2, 4, 8, 16, 25)


def geometry(
    books: int, size: int, dim: int, latent: int, hidden: int, layers: int, heads: int, width: int
) -> CodecDecoderConfig:
    return CodecDecoderConfig(
        codebook_size=size,
        codebook_dim=dim,
        num_quantizers=books,
        latent_dim=latent,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=64 if hidden == 512 else hidden // heads,
        sliding_window=72,
        rope_theta=10_000.0,
        rms_norm_eps=1e-5,
        layer_scale_initial_scale=0.01,
        max_position_embeddings=8000,
        upsampling_ratios=(2, 2),
        upsample_rates=(8, 5, 4, 3),
        decoder_dim=width,
    )


GEOMETRIES = {
    "published": geometry(16, 2048, 512, 1024, 512, 8, 16, 1536),
    "small": geometry(8, 512, 128, 192, 128, 4, 4, 256),
}


def filled(decoder: CodecDecoder) -> StreamingDecoder:
    # Numbers like a trained network's: none silent, none so small that the processor slows down.
    for parameter in decoder.parameters():
        nn.init.normal_(parameter, std=0.5 if parameter.ndim < 2 else parameter[0].numel() ** -0.5)
    for module in decoder.quantizer.modules():
        if hasattr(module, "cluster_usage"):
            nn.init.ones_(module.cluster_usage)
    return StreamingDecoder(decoder)


def timed(decoder: StreamingDecoder, state: DecoderState, chunk: int, steps: int) -> list[float]:
    """Milliseconds a frame, step by step."""
    config, times = decoder.config, []
    codes = torch.randint(config.codebook_size, (1, config.num_quantizers, chunk))
    for _ in range(steps):
        begin = time.perf_counter()
        _, state = decoder.step(codes, state)
        times.append((time.perf_counter() - begin) * 1000 / chunk)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--geometries", nargs="+", default=list(GEOMETRIES), choices=GEOMETRIES)
    args = parser.parse_args()
    torch.manual_seed(0)
    streams = {}
    for name in args.geometries:
        decoder = filled(CodecDecoder(GEOMETRIES[name]))
        # A stream whose attention looks back over its whole window.
        config = decoder.config
        warm = torch.randint(config.codebook_size, (1, config.num_quantizers, config.sliding_window))
        streams[name] = decoder, decoder.step(warm, decoder.init_state())[1]
    figures: dict[tuple[str, int, int], list[float]] = {}
    for _ in range(args.rounds):
        for threads in args.threads:
            torch.set_num_threads(threads)
            for name, (decoder, state) in streams.items():
                for chunk in CHUNKS:
                    # The first step after another arm finds its weights out of the cache.
                    times = timed(decoder, state, chunk, steps=1 + max(2, 8 // chunk))[1:]
                    figures.setdefault((name, threads, chunk), []).extend(times)
    for name, (decoder, _) in streams.items():
        print(f"{name}: {decoder.state_bytes:,} bytes a stream; ms a frame (best) by chunk, {FRAME_MS} ms to play it")
        print("  threads " + "".join(f"{chunk:>14}" for chunk in CHUNKS))
        for threads in args.threads:
            shown = (figures[name, threads, chunk] for chunk in CHUNKS)
            print(f"  {threads:>7} " + "".join(f"{median(times):>7.1f} ({min(times):4.1f})" for times in shown))
    if args.json:
        rows = [
            {"geometry": name, "threads": threads, "chunk": chunk, "ms_per_frame": median(times), "best": min(times)}
            for (name, threads, chunk), times in figures.items()
        ]
        machine = {"processor": platform.processor() or platform.machine(), "torch": torch.__version__}
        args.json.write_text(json.dumps({"machine": machine, "figures": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
