"""The talker and its code predictor learn to speak the codec's codes.

Both published text layouts, half of the sentences each. Three things help and are not shipped: a head that names the
phones of the frame to come; one attention head in two layers that is told where in the text the voice is (from the
teacher's durations); and a past that the voice made itself.

Told its teacher's past, the former voice chose frames of which Whisper misheard 11.5 % of the words (40 development
sentences); left to its own it was 17 to 23 % (two other draws of 32). So a first pass without gradients says what the
voice would say to each frame, and a second learns with those in the place of a share of the past (scheduled sampling,
Bengio et al. 2015, all frames at once as in Mihaylova and Martins 2019). What is to be said stays the teacher's: its
clock is one way to say a sentence, so nothing shifts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from checkpoints import MovingAverage, read, write
from geometry import CODES, CONFIG, GROUPS, SPEAKER
from torch import Tensor, nn
from torch.nn import functional as F

from ouzel.models.qwen3_tts.config import Qwen3TTSConfig, config_from_dict
from ouzel.models.qwen3_tts.layers import Attention
from ouzel.models.qwen3_tts.predictor import CodePredictor
from ouzel.models.qwen3_tts.talker import Talker
from ouzel.models.qwen3_tts.tokenizer import TextTokenizer

PHONES = 256
GUIDED = ((2, 0), (3, 2))  # (layer, head)
IGNORE = -100
torch_attention = F.scaled_dot_product_attention
OWN_TEMPERATURE = 0.5  # of the voice's own past; it is served at 0.3, and should survive worse
WEIGHTS = (1.0, 0.5, 0.25)  # of codebooks 1, 2, 3: what the sound needs most comes first


@dataclass(slots=True)
class Corpus:
    """encode.py's file, cut into sentences."""

    tokens: list[np.ndarray]
    token_ends: list[np.ndarray]
    codes: list[np.ndarray]
    phones: list[np.ndarray]
    letters: list[np.ndarray]

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        """All files of `folder` together."""
        return cls.load_files(sorted(folder.glob("[0-9]*.npz")))

    @classmethod
    def load_files(cls, paths: Iterable[Path]) -> Corpus:
        whole = cls([], [], [], [], [])
        for path in paths:
            parts = np.load(path)
            token_cuts, frame_cuts = np.cumsum(parts["sizes"], axis=0)[:-1].T
            for name in ("tokens", "token_ends", "codes", "phones", "letters"):
                cuts = token_cuts if name.startswith("token") else frame_cuts
                part = parts[name][:, :GROUPS] if name == "codes" else parts[name]
                getattr(whole, name).extend(np.split(part, cuts))
        return whole


@dataclass(slots=True)
class Batch:
    """Rows of several prompts with their speech, padded on the right."""

    text: Tensor  # [B, T] text id of every row
    special: Tensor  # [B, T] codec id on the codec side, -1 where there is none or a frame
    frame: Tensor  # [B, T, G] codes of a frame row, -1 elsewhere
    next_codes: Tensor  # [B, T, G] the frame that each row has to say, IGNORE where none; end of speech in codebook 0
    phones: Tensor  # [B, T, 4] phones of that frame
    window: Tensor  # [B, T, T] bool, text rows that are being said at each row

    def to(self, device: str) -> Batch:
        return Batch(*(getattr(self, part.name).to(device) for part in fields(self)))


class Prompts:
    """Prompt rows as ids, laid out as the product's prompt builder does."""

    def __init__(self, config: Qwen3TTSConfig, tokenizer: TextTokenizer) -> None:
        self.text_ids, self.ids = config.text_ids, config.talker.ids
        self.role = tokenizer.encode("<|im_start|>assistant\n")
        ids = config.talker.ids
        language = config.languages["english"]
        self.named = [ids.think, ids.think_bos, language, ids.think_eos, config.speakers[SPEAKER]]
        self.auto = [ids.nothink, ids.think_bos, ids.think_eos, config.speakers[SPEAKER]]

    def rows(
        self, tokens: np.ndarray, frames: int, streaming: bool, auto: bool
    ) -> tuple[list[int], list[int], int, list[int]]:
        """Text ids and codec ids of all rows, the row that says frame 0, and the row of each text token."""
        t, c = self.text_ids, self.ids
        tags = self.auto if auto else self.named
        text = [*self.role, *([t.tts_pad] * len(tags)), t.tts_bos]
        codec = [*([-1] * len(self.role)), *tags, c.pad]
        spoken = [int(i) for i in tokens] + [t.tts_eos]
        where = [len(text) + i for i in range(len(tokens))]
        if streaming:
            start = len(text)
            trail = spoken[1 : frames + 1]
            text += [spoken[0], *trail, *([t.tts_pad] * (frames - len(trail)))]
            codec.append(c.bos)
        else:
            text += [*spoken, t.tts_pad]
            codec += [*([c.pad] * len(spoken)), c.bos]
            start = len(text) - 1
            text += [t.tts_pad] * frames
        codec += [-1] * frames
        return text, codec, start, where


def make_batch(corpus: Corpus, members: np.ndarray, prompts: Prompts, rng: np.random.Generator, swap: float) -> Batch:
    """Lay out the sentences, each in a layout drawn by lot; swap a share of past frames for others of the batch."""
    laid = []
    for i in members:
        streaming, auto = bool(rng.random() < 0.5), bool(rng.random() < 0.2)
        laid.append(prompts.rows(corpus.tokens[i], len(corpus.codes[i]), streaming, auto))
    length = max(len(text) for text, *_ in laid)
    shape = (len(members), length)
    text, special = np.full(shape, prompts.text_ids.tts_pad), np.full(shape, -1)
    frame, next_codes = np.full((*shape, GROUPS), -1), np.full((*shape, GROUPS), IGNORE)
    phones, window = np.full((*shape, 4), IGNORE), np.zeros((*shape, length), dtype=bool)
    pool = np.concatenate([corpus.codes[i] for i in members]).astype(int)
    for b, (i, (row_text, row_codec, start, where)) in enumerate(zip(members, laid, strict=True)):
        codes = corpus.codes[i].astype(int)
        count = len(codes)
        text[b, : len(row_text)], special[b, : len(row_codec)] = row_text, row_codec
        past = codes.copy()
        lost = rng.random(count) < swap
        past[lost] = pool[rng.integers(0, len(pool), int(lost.sum()))]
        frame[b, start + 1 : start + 1 + count] = past
        next_codes[b, start : start + count] = codes
        next_codes[b, start + count, 0] = prompts.ids.eos
        phones[b, start : start + count] = corpus.phones[i]
        ends = corpus.token_ends[i].astype(int)
        begins = np.concatenate([[0], ends[:-1]])
        at = corpus.letters[i][:, None]
        said = (begins[None] < at + 5) & (ends[None] > at - 3)
        rows = start + np.arange(count)
        window[b, rows[:, None], np.array(where)[None]] = said & (np.array(where)[None] <= rows[:, None])
    return Batch(*(torch.from_numpy(a) for a in (text, special, frame, next_codes, phones, window)))


class Guide:
    """Watches one head of some layers and says how much of its attention misses the text being said."""

    def __init__(self, talker: Talker) -> None:
        self.window: Tensor | None = None
        self.losses: list[Tensor] = []
        for layer, head in GUIDED:
            attention = talker.model.layers[layer].self_attn
            attention.forward = self._watched(attention, head)

    def _watched(self, attention: Attention, head: int):  # noqa: ANN202
        inner = type(attention).forward

        def forward(x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor | None) -> Tensor:
            if self.window is not None:
                q, k, _ = attention.project(x, cos, sin)
                share = q.shape[2] // k.shape[2]
                scores = q[:, :, head] @ k[:, :, head // share].transpose(1, 2) * attention.head_dim**-0.5
                future = torch.ones(scores.shape[1:], dtype=torch.bool, device=scores.device).triu(1)
                seen = scores.float().masked_fill(future, -torch.inf).softmax(-1)
                told = self.window.any(-1)
                self.losses.append(-((seen * self.window).sum(-1)[told] + 1e-4).log().mean())
            return inner(attention, x, cos, sin, mask)

        return forward


def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: None = None, *, is_causal: bool = False, enable_gqa: bool = False
) -> Tensor:
    """In place of scaled_dot_product_attention, where causal: its backward takes a third of a step at short rows."""
    # q: [B, H, T, D], k, v: [B, K, T, D] -> [B, H, T, D]
    if not is_causal:
        return torch_attention(q, k, v, attn_mask, enable_gqa=enable_gqa)
    batch, heads, length, size = q.shape
    shared = (batch * k.shape[1], -1, size)
    scores = torch.bmm((q * size**-0.5).reshape(shared), k.reshape(shared).transpose(1, 2))
    future = torch.full((length, length), -torch.inf, dtype=scores.dtype, device=q.device).triu(1)
    seen = (scores.view(batch, heads, length, length) + future).softmax(-1)
    return torch.bmm(seen.view(shared[0], -1, length), v.reshape(shared)).view(batch, heads, length, size)


class Voice(nn.Module):
    """Talker, predictor and the training-only phone head."""

    def __init__(self, config: Qwen3TTSConfig) -> None:
        super().__init__()
        self.talker, self.predictor = Talker(config.talker), CodePredictor(config.talker.predictor)
        self.phones = nn.Linear(config.talker.hidden_size, 4 * PHONES)

    def rows(self, batch: Batch) -> Tensor:
        """The talker's input: [B, T, H]."""
        talker = self.talker
        rows = (
            talker.text_rows(batch.text)
            + talker.codec_rows(batch.special.clamp(min=0)) * (batch.special >= 0)[..., None]
        )
        is_frame = batch.frame[..., 0] >= 0
        frames = self.predictor.embed_sum(batch.frame[is_frame], talker).to(rows.dtype)
        return rows.index_put((is_frame,), frames, accumulate=True)

    @torch.no_grad()
    def with_own_past(self, batch: Batch, most: float, least: float = 0.0) -> Batch:
        """The batch with a share of each sentence's frames, from `least` to `most`, as the voice would say them."""
        hidden = self.talker(self.rows(batch))
        lots = torch.rand(len(hidden), 1 + hidden.shape[1], device=hidden.device)
        replaced = (batch.next_codes[..., 1] != IGNORE) & (lots[:, 1:] < least + (most - least) * lots[:, :1])
        chosen = hidden[replaced]
        odds = (self.talker.logits(chosen)[:, :CODES].float() / OWN_TEMPERATURE).softmax(-1)
        first = torch.multinomial(odds, 1)[:, 0]
        said = self.predictor.predict(chosen, first, lambda logits, group: logits.argmax(-1), self.talker)
        frame = batch.frame.clone()
        frame[:, 1:][replaced[:, :-1]] = said
        return replace(batch, frame=frame)

    def losses(self, batch: Batch, guide: Guide, share: float) -> list[Tensor]:
        """Cross-entropies of codebook 0, of the other codebooks (on a share of the frames), phones, and the guide."""
        talker = self.talker
        guide.window, guide.losses = batch.window, []
        hidden = F.dropout(talker(self.rows(batch)), 0.1, self.training)
        guide.window = None
        says = batch.next_codes[..., 0] != IGNORE
        first = F.cross_entropy(talker.logits(hidden[says]).float(), batch.next_codes[says][:, 0])
        speaks = batch.next_codes[..., 1] != IGNORE
        phone = F.cross_entropy(
            self.phones(hidden[speaks]).float().reshape(-1, PHONES), batch.phones[speaks].reshape(-1)
        )
        chosen = speaks & (torch.rand(speaks.shape, device=speaks.device) < share)
        codes = batch.next_codes[chosen]
        logits = self.predictor(hidden[chosen], codes, talker).float()
        each = F.cross_entropy(logits.transpose(1, 2), codes[:, 1:], reduction="none").mean(0)
        rest = (each * each.new_tensor(WEIGHTS)).sum() / sum(WEIGHTS)
        return [first, rest, phone, torch.stack(guide.losses).mean()]


def batches(corpus: Corpus, rng: np.random.Generator, rows: int) -> list[np.ndarray]:
    """One pass over the corpus in batches of about `rows` rows, sentences of like length together."""
    size = np.array([len(t) + len(c) + 14 for t, c in zip(corpus.tokens, corpus.codes, strict=True)])
    order = np.argsort(size + rng.uniform(0, 12, len(size)))
    cuts, begin = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or size[order[end]] * (end + 1 - begin) > rows:
            cuts.append(order[begin:end])
            begin = end
    rng.shuffle(cuts)
    return cuts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path, help="folder of encode.py's files, looked at again after every pass")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rows", type=int, default=2400)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--share", type=float, default=0.3, help="of the frames that train the predictor in each step")
    parser.add_argument("--swap", type=float, default=0.06)
    parser.add_argument("--own", type=float, default=1.0, help="most that the past of a sentence is the voice's own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--start", type=Path, help="checkpoint whose tensors are taken where they fit")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--cool", action="store_true", help="let the learning rate fall to nothing by the end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    F.scaled_dot_product_attention = attention
    rng = np.random.default_rng()
    config = config_from_dict(CONFIG)
    prompts, corpus = Prompts(config, TextTokenizer(args.tokenizer)), Corpus.load(args.corpus)
    voice = Voice(config).to(args.device)
    for module in voice.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
    guide = Guide(voice.talker)
    optimizer = torch.optim.AdamW(voice.parameters(), lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    average = MovingAverage(voice, 0.999)
    step, epoch, queue = 0, 0, []
    fits = {name: value.shape for name, value in voice.state_dict().items()}
    if args.out.exists():
        saved = read(args.out)
        voice.load_state_dict(saved["voice"])
        optimizer.load_state_dict(saved["optimizer"])
        average.load(saved["average"])
        step = saved["step"]

    def keep() -> None:
        write(
            args.out,
            voice=voice.state_dict(),
            optimizer=optimizer.state_dict(),
            average=average.state,
            step=step,
        )

    if args.start and not step:
        known = {n: v for n, v in read(args.start)["voice"].items() if n in fits and fits[n] == v.shape}
        voice.load_state_dict(known, strict=False)
        print(f"{len(known)} of {len(fits)} tensors from {args.start}", flush=True)
    begin, shown = time.thread_time(), np.zeros(4)  # of computing: a run that is paused doesn't cool meanwhile
    while (elapsed := time.thread_time() - begin) < args.minutes * 60:
        if not queue:
            corpus = Corpus.load(args.corpus)
            queue, epoch = batches(corpus, rng, args.rows), epoch + 1
        done = elapsed / (args.minutes * 60)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 300) * (max(0.02, 1 - done) if args.cool else 1.0)
        batch = make_batch(corpus, queue.pop(), prompts, rng, args.swap).to(args.device)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            if args.own:
                batch = voice.with_own_past(batch, args.own)
            parts = voice.losses(batch, guide, args.share)
        loss = parts[0] + parts[1] + 0.3 * parts[2] + 0.1 * parts[3]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(voice.parameters(), 1.0)
        optimizer.step()
        average.update(voice)
        step += 1
        values = np.array([p.item() for p in parts])
        shown = values if not shown.any() else 0.98 * shown + 0.02 * values
        if step % 50 == 0:
            names = " ".join(f"{n} {v:.3f}" for n, v in zip(("first", "rest", "phones", "guide"), shown, strict=True))
            print(f"{step} epoch {epoch} {elapsed:.0f}s {names}", flush=True)
        if step % 100 == 0:
            keep()
    keep()


if __name__ == "__main__":
    main()
