"""The voice's own byte-level BPE, written in the published files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from geometry import SPECIALS, TEXT_VOCAB
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from ouzel.models.qwen3_tts.tokenizer import SPLIT
from ouzel.text.normalize import normalize_english


def spoken(text: str) -> str:
    """What the talker reads: words only, in small letters."""
    return normalize_english(text).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    lines = (args.data / "train.jsonl").read_text().splitlines()
    # "assistant" stands alone in every prompt and must be one token, without the blank of running text.
    corpus = [spoken(json.loads(line)["text"]) for line in lines] + ["assistant"] * 10_000
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"), byte_level]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    size = TEXT_VOCAB - len(SPECIALS)
    tokenizer.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(args.out))
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    added = {str(size + i): {"content": token, **flags} for i, token in enumerate(SPECIALS)}
    config = {"added_tokens_decoder": added, "tokenizer_class": "Qwen2Tokenizer"}
    (args.out / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main()
