"""The same voice, the same sentences, the same threads: Ouzel beside the official `qwen-tts` package.

    .venv/bin/python benchmarks/tts/peers_bench.py --official tests/oracle/.venv/bin/python --json peers.json

Each arm is a process that loads the voice once; sentences go to the arms in turns, so that both meet the same machine.
The official package doesn't stream: its first audio is its last. `make -C tests/oracle goldens` makes its environment.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = (
    "The river keeps its own time, and so does a sentence that is spoken while it is being made.",
    "Could you tell me when the next train leaves?",
    "She put the letters back into the drawer and closed it without a sound.",
    "Nobody on the platform had an umbrella, so everybody waited under the old clock.",
    "Your meeting begins at three, and the room is on the second floor.",
)

#: Speaks a sentence with a seed: seconds of audio, seconds until the first of it.
Arm = Callable[[str, int], tuple[float, float]]


def ouzel_arm(voice: Path, threads: int) -> Arm:
    from ouzel.config import load_config
    from ouzel.in_process import InProcess, Wishes
    from ouzel.stages.core import SamplingWishes

    engine = InProcess.load(voice, load_config(("qwen3_tts",)).config, threads=threads)

    def speak(text: str, seed: int) -> tuple[float, float]:
        begin, first, samples = time.perf_counter(), 0.0, 0
        for sound in engine.speak(text, Wishes(sampling=SamplingWishes(seed=seed))):
            first = first or time.perf_counter() - begin
            samples += len(sound.samples)
        return samples / engine.sample_rate, first

    return speak


def official_arm(voice: Path, threads: int) -> Arm:
    sys.path.insert(0, str(ROOT / "tests" / "oracle"))
    official = importlib.import_module("official")  # before qwen_tts, whose import needs its stand-ins

    import torch
    from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2DecoderConfig
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Decoder
    from safetensors.torch import load_file

    torch.set_num_threads(threads)
    model = official.load(voice)
    model.model.float()
    codec = json.loads((voice / "speech_tokenizer" / "config.json").read_text())
    decoder = Qwen3TTSTokenizerV2Decoder(Qwen3TTSTokenizerV2DecoderConfig(**codec["decoder_config"])).eval()
    weights = load_file(voice / "speech_tokenizer" / "model.safetensors")
    decoder.load_state_dict({name.removeprefix("decoder."): tensor.float() for name, tensor in weights.items()})
    sampling = json.loads((voice / "generation_config.json").read_text())
    speaker = next(iter(model.model.config.talker_config.spk_id))

    @torch.inference_mode()
    def speak(text: str, seed: int) -> tuple[float, float]:
        torch.manual_seed(seed)
        begin = time.perf_counter()
        ids = model._tokenize_texts([model._build_assistant_text(text.lower())])
        limit = {"max_new_tokens": 400}  # the package has no limit of its own that follows the text
        codes, _ = model.model.generate(
            input_ids=ids, languages=["english"], speakers=[speaker], non_streaming_mode=True, **(sampling | limit)
        )
        samples = decoder(codes[0].T[None]).shape[-1]
        return samples / codec["output_sample_rate"], time.perf_counter() - begin

    return speak


ARMS: dict[str, Callable[[Path, int], Arm]] = {"ouzel": ouzel_arm, "qwen-tts": official_arm}


def work(name: str, voice: Path, threads: int) -> None:
    """Be one arm: a sentence and a seed a line in, its figures a line out."""
    speak = ARMS[name](voice, threads)
    speak(SENTENCES[1], 0)
    print("ready", flush=True)
    for line in sys.stdin:
        text, seed = json.loads(line)
        begin = time.perf_counter()
        audio, first = speak(text, seed)
        print(json.dumps({"audio": audio, "first": first, "wall": time.perf_counter() - begin}), flush=True)


def start(name: str, python: str, voice: Path, threads: int) -> subprocess.Popen[str]:
    command = [python, __file__, "--worker", name, "--voice", str(voice), "--threads", str(threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(worker: subprocess.Popen[str], message: str | None = None) -> str:
    assert worker.stdin is not None
    assert worker.stdout is not None
    if message is not None:
        worker.stdin.write(message + "\n")
        worker.stdin.flush()
    while line := worker.stdout.readline():  # the official package prints warnings among its answers
        if line.startswith(("ready", "{")):
            return line
    raise SystemExit(f"the worker ended with {worker.wait()}")


def measure(workers: dict[str, subprocess.Popen[str]], passes: int) -> dict[str, Any]:
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    for seed in range(passes):
        for text in SENTENCES:
            for name, worker in workers.items():
                seen[name].append(json.loads(ask(worker, json.dumps([text, seed]))))
    figures: dict[str, Any] = {
        name: {
            "rtf": round(statistics.median(run["wall"] / run["audio"] for run in runs), 4),
            "first_audio_ms": round(1000 * statistics.median(run["first"] for run in runs), 1),
            "runs": len(runs),
        }
        for name, runs in seen.items()
    }
    if len(figures) == 2:
        figures["ratio"] = round(figures["qwen-tts"]["rtf"] / figures["ouzel"]["rtf"], 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", type=Path, default=ROOT / "server/ouzel/voices/joe")
    parser.add_argument("--official", help="python of the oracle's environment; without it only Ouzel is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=ARMS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args.voice, args.threads)
        return
    pythons = {"ouzel": sys.executable} | ({"qwen-tts": args.official} if args.official else {})
    workers = {name: start(name, python, args.voice, args.threads) for name, python in pythons.items()}
    for worker in workers.values():
        ask(worker)
    figures = measure(workers, args.passes) | {"threads": args.threads}
    for worker in workers.values():
        worker.terminate()
    print(json.dumps(figures, indent=1))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
