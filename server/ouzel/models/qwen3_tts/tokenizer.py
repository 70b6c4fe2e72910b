"""The text tokenizer of a checkpoint: Qwen2's byte-level BPE from vocab.json and merges.txt."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ouzel.errors import CheckpointError
from ouzel.models.qwen3_tts.published_json import read_json

__all__ = ["TextTokenizer"]

# Qwen2's split: contractions, words with one leading mark, single digits, runs of marks, line ends, spaces.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class TextTokenizer:
    """Text to ids and back; the special tokens are those of tokenizer_config.json."""

    def __init__(self, folder: Path) -> None:
        """Read vocab.json, merges.txt and tokenizer_config.json; `CheckpointError` names what is missing or torn."""
        self._split = pre_tokenizers.Split(Regex(SPLIT), behavior="isolated")
        self._tokenizer = _build(folder, self._split)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; special tokens written out in it become their single id."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_plain(self, text: str) -> list[int]:
        """The ids of `text` in which nothing is markup: what somebody asks to be spoken can't end the prompt."""
        self._tokenizer.encode_special_tokens = True
        try:
            return self.encode(text)
        finally:
            self._tokenizer.encode_special_tokens = False

    def certain(self, text: str) -> int:
        """How many letters of `text` have tokens that no continuation can change.

        The last word, and the blanks behind it, may still grow; a split never looks past the next word's first mark.
        """
        words = [span for word, span in self._split.pre_tokenize_str(text) if not word.isspace()]
        return words[-1][0] if words else 0

    def decode(self, ids: list[int]) -> str:
        """The text of `ids`, special tokens included."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    @property
    def size(self) -> int:
        """One more than the highest id."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1


def _build(folder: Path, split: pre_tokenizers.PreTokenizer) -> Tokenizer:
    vocabulary = read_json(folder / "vocab.json")
    ids = {token: vocabulary.integer(token) for token in vocabulary}
    tokenizer = Tokenizer(models.BPE(ids, _read_merges(folder / "merges.txt", ids)))
    tokenizer.normalizer = normalizers.NFC()
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    _add_special(tokenizer, folder / "tokenizer_config.json")
    return tokenizer


def _read_merges(file: Path, ids: dict[str, int]) -> list[tuple[str, str]]:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} is not readable text: {error}") from error
    merges = []
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not {left, right, left + right} <= ids.keys():
            raise CheckpointError(f"{file}:{number}: {line!r} merges tokens that vocab.json doesn't have")
        merges.append((left, right))
    # Every token of several bytes is the product of a merge, so a file that lacks its end shows.
    if unmade := {token for token in ids if len(token) > 1} - {left + right for left, right in merges}:
        raise CheckpointError(f"{file} is torn: nothing in it makes {min(unmade)!r}, which vocab.json has")
    return merges


def _add_special(tokenizer: Tokenizer, file: Path) -> None:
    config = read_json(file)
    if "added_tokens_decoder" not in config:
        return
    added = config.section("added_tokens_decoder")
    for key in sorted(added, key=int):
        token = added.section(key)
        content = token.text("content")
        tokenizer.add_tokens(
            [
                AddedToken(
                    content,
                    single_word=token.flag("single_word"),
                    lstrip=token.flag("lstrip"),
                    rstrip=token.flag("rstrip"),
                    normalized=token.flag("normalized"),
                    special=token.flag("special"),
                )
            ]
        )
        if (found := tokenizer.token_to_id(content)) != int(key):
            raise added.error(key, f"is {content!r}, which got id {found}: vocab.json has a gap")
