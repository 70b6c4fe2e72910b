"""What processes hold in memory, and how fast this machine reads it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 0.02


@dataclass(slots=True)
class Peak:
    """The most anonymous memory that was seen."""

    bytes: int = 0


def resident(session: int, kind: str = "RssAnon") -> int:
    """Bytes of all processes of a session, which has the number of the process that began it.

    RssAnon, because VmRSS counts pages of mapped checkpoints by chance.
    """
    return sum(_read(member, kind) for member in _members(session))


@contextmanager
def watched(session: int) -> Iterator[Peak]:
    """Samples the anonymous memory every 20 ms while the block runs."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(EVERY_S):
            peak.bytes = max(peak.bytes, resident(session))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield peak
    finally:
        done.set()
        watching.join()


def read_rate(buffer: object, repeats: int = 3) -> float:
    """Bytes a second at which torch's threads add up a buffer of float32: the best of a few."""
    best = 0.0
    for _ in range(repeats):
        begin = time.perf_counter()
        buffer.sum()  # type: ignore[attr-defined]
        best = max(best, buffer.nbytes / (time.perf_counter() - begin))  # type: ignore[attr-defined]
    return best


def _members(session: int) -> Iterator[int]:
    """The session's processes, but for one just forked that isn't another program yet: its pages are its parent's."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # after the name in brackets: state, parent, group, session
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[3]) == session:
                parents[int(folder.name)] = int(fields[1])
    for member, parent in parents.items():
        if parent not in parents or _command(member) != _command(parent):
            yield member


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _read(pid: int, kind: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{kind}:")), 0)
