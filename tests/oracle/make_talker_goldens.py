"""Ask the official package for the goldens of talker, predictor, prompts, sampling and tokens (README.md).

python tests/oracle/make_talker_goldens.py tests/oracle/golden/talker.safetensors
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

import official
from tiny_prompts import CASES, FRAMES, PROCESSINGS, processing_input
from tiny_talker import TEXTS, write_checkpoint

# Frames whose predictor logits are kept; codes are kept for all.
KEPT = 6


def case_goldens(name: str, run: official.Run) -> dict[str, Tensor]:
    groups = run.codes.shape[1]
    talker = torch.stack(run.talker_logits[:FRAMES]).log_softmax(-1).topk(official.TOP)
    predictor = torch.stack(run.predictor_logits).unflatten(0, (-1, groups - 1))
    margin = min(_margin(torch.stack(run.talker_logits)), _margin(predictor))
    print(f"{name}: rows {tuple(run.prompt['rows'].shape)}, {run.codes.unique().numel()} codes, margin {margin:.1e}")
    kept = predictor[:KEPT].log_softmax(-1).topk(official.TOP)
    return {f"{name}.{part}": tensor for part, tensor in run.prompt.items()} | {
        f"{name}.codes": run.codes.to(torch.int16),
        f"{name}.talker_ids": talker.indices.to(torch.int16),
        f"{name}.talker_logprobs": talker.values,
        f"{name}.predictor_ids": kept.indices.to(torch.int16),
        f"{name}.predictor_logprobs": kept.values,
    }


def _margin(logits: Tensor) -> float:
    """The closest call of a greedy run: below about 1e-4 equal codes would be luck. Special ids don't compete."""
    best = logits[..., :128].topk(2).values
    return float((best[..., 0] - best[..., 1]).min())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    goldens: dict[str, Tensor] = {}
    with tempfile.TemporaryDirectory() as temporary:
        models = {
            kind: official.load(write_checkpoint(Path(temporary) / "-".join(kind), *kind))
            for kind in sorted({(case.size, case.model_type) for case in CASES.values()})
        }
        for name, case in CASES.items():
            model = models[case.size, case.model_type]
            goldens |= case_goldens(name, official.run(model, case, FRAMES, minimum=FRAMES + 1))
            # Left alone, some end by themselves: at least two frames, and the end itself is no frame.
            ended = official.run(model, case, FRAMES, minimum=2).codes
            goldens[f"{name}.frames"] = torch.tensor(len(ended))
        for name, setting in PROCESSINGS.items():
            model = models["small", "custom_voice"]
            given = processing_input(name, model.model.config.talker_config.vocab_size)
            goldens[f"processing.{name}"] = official.processed(model, setting, *given)
        for place, ids in enumerate(official.tokenize(Path(temporary) / "small-custom_voice", TEXTS)):
            goldens[f"tokens.{place}"] = ids
    save_file({name: tensor.contiguous().clone() for name, tensor in goldens.items()}, out)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
