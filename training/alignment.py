"""Which letter is being said in each frame, from the teacher's own durations."""

from __future__ import annotations

import numpy as np

BLANK_WORD = 3  # Piper's id of the space between words


def frame_letters(text: str, phones: np.ndarray) -> np.ndarray:
    """Letter positions [frames] float32 of `text` for phones [frames * 8] at 100 Hz."""
    words = word_spans(text)
    starts = np.flatnonzero(np.diff(phones, prepend=-1))
    runs = phones[starts]
    spoken: list[list[int]] = [[]]  # runs of each spoken word
    for i, phone in enumerate(runs):
        if phone == BLANK_WORD:
            spoken.append([])
        else:
            spoken[-1].append(i)
    spoken = [word for word in spoken if word]
    position = np.zeros(len(runs), dtype=np.float32)
    for word, (first, last) in zip(spoken, match_words([len(w) for w in spoken], words), strict=True):
        position[word] = np.linspace(first, last, len(word) + 1)[:-1]
    for i in np.flatnonzero(runs == BLANK_WORD):
        position[i] = position[i - 1] if i else 0
    of_step = np.repeat(position, np.diff(starts, append=len(phones)))
    return of_step[4::8]


def word_spans(text: str) -> list[tuple[int, int]]:
    """First and one-past-last letter of each word."""
    spans, begin = [], 0
    for word in text.split(" "):
        if word:
            spans.append((begin, begin + len(word)))
        begin += len(word) + 1
    return spans


def match_words(spoken: list[int], written: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A span of letters for each spoken word; the speaker joins short words ("of the" becomes one).

    Dynamic programming: each spoken word takes one to four written words, cost the squared difference of length.
    Where that can't be (a word read as several), letters are shared out in proportion.
    """
    count, words = len(spoken), len(written)
    best = np.full((count + 1, words + 1), np.inf)
    taken = np.zeros((count + 1, words + 1), dtype=int)
    best[0, 0] = 0
    for i in range(1, count + 1):
        for j in range(1, words + 1):
            for take in range(1, min(4, j) + 1):
                letters = sum(b - a for a, b in written[j - take : j])
                cost = best[i - 1, j - take] + (spoken[i - 1] - letters) ** 2
                if cost < best[i, j]:
                    best[i, j], taken[i, j] = cost, take
    if not np.isfinite(best[count, words]):
        edges = np.concatenate([[0], np.cumsum(spoken)]) / max(1, sum(spoken)) * (written[-1][1] if written else 0)
        return [(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    spans, j = [], words
    for i in range(count, 0, -1):
        take = taken[i, j]
        spans.append((written[j - take][0], written[j - 1][1]))
        j -= take
    return spans[::-1]
