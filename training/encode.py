"""The talker's training set: every sentence's tokens, codes, phones and letter positions, in small files."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import shards
import torch
from alignment import frame_letters
from codec_encoder import Codec
from text_tokenizer import spoken

from ouzel.models.qwen3_tts.tokenizer import TextTokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("codec", type=Path, help="checkpoint of train_latent.py")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--first", type=int, default=0, help="first shard")
    parser.add_argument("--last", type=int, default=10_000, help="one past the last shard")
    args = parser.parse_args()
    torch.set_num_threads(1)
    codec = Codec()
    codec.load_state_dict(torch.load(args.codec, weights_only=True)["codec"])
    tokenizer = TextTokenizer(args.tokenizer)
    speech = shards.load(args.data, False, args.first, args.last)
    codes, phones, letters, tokens, token_ends, sizes = [], [], [], [], [], []
    for i, text in enumerate(speech.texts):
        first, last = int(speech.starts[i]), int(speech.starts[i + 1])
        z, phone = speech.z_crops(np.array([first]), last - first)
        codes.append(codec.encode(torch.from_numpy(z))[0].T.numpy().astype(np.uint16))
        said = spoken(text)
        ids = tokenizer.encode(said)
        ends = np.cumsum([len(tokenizer.decode([t])) for t in ids])
        phones.append(phone[0][1::2].reshape(-1, 4))
        letters.append(frame_letters(said, phone[0]))
        tokens.append(np.array(ids, dtype=np.uint16))
        token_ends.append(ends.astype(np.uint16))
        sizes.append((len(ids), last - first))
    parts = {"codes": codes, "phones": phones, "letters": letters, "tokens": tokens, "token_ends": token_ends}
    arrays = {name: np.concatenate(part) for name, part in parts.items()}
    np.savez(args.out, sizes=np.array(sizes, dtype=np.int32), **arrays)
    print(f"{len(sizes)} sentences, {len(arrays['codes']) * 0.08 / 3600:.1f} hours, {len(arrays['tokens'])} tokens")


if __name__ == "__main__":
    main()
