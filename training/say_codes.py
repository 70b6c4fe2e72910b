"""The codes that the talker would say of the sentences that have sound, for the decoder to learn from.

It is told the teacher's past at first and its own then, so the codes stay in step with the sound and have the mistakes
that the voice makes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from checkpoints import read
from geometry import CONFIG, GROUPS
from train_talker import Corpus, Prompts, Voice, batches, make_batch

from ouzel.models.qwen3_tts.config import config_from_dict
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="encode.py's file of the shards with sound")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("talker", type=Path, help="checkpoint of train_talker.py")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    config = config_from_dict(CONFIG)
    prompts, corpus = Prompts(config, TextTokenizer(args.tokenizer)), Corpus.load_files([args.corpus])
    voice = Voice(config)
    saved = read(args.talker)
    voice.load_state_dict(saved.get("average") or saved["voice"], strict=False)
    voice.eval()
    codes: list[np.ndarray] = [np.empty((0, GROUPS))] * len(corpus.codes)
    for members in batches(corpus, rng, 2400):
        batch = make_batch(corpus, members, prompts, rng, swap=0.0)
        for _ in range(2):
            batch = voice.with_own_past(batch, most=1.0, least=1.0)
        for member, rows in zip(members, batch.frame.numpy(), strict=True):
            codes[member] = rows[rows[:, 0] >= 0]
    said, true = np.concatenate(codes), np.concatenate(corpus.codes)
    np.savez(args.out, codes=said.astype(np.uint16))
    print(f"{len(said)} frames; as the teacher's, by codebook: {np.round((said == true).mean(0), 3)}")


if __name__ == "__main__":
    main()
