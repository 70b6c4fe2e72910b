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
from tiny_talker import CODEBOOK, TEXTS, write_checkpoint


def case_goldens(name: str, run: official.Run) -> dict[str, Tensor]:
    rows, distinct = len(run.prompt["rows"]), run.codes.unique().numel()
    print(f"{name}: {rows} rows, {distinct} codes, margin {official.margin(run, CODEBOOK):.1e}")
    return {f"{name}.{part}": tensor for part, tensor in official.answers(run).items()}


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
