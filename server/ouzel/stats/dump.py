"""Step statistics of each process as a JSON file in one folder, and all of them read back together."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ouzel.stats.snapshot import Snapshot, merge

__all__ = ["FOLDER_VARIABLE", "dump", "load"]

#: Statistics are on where this environment variable names a folder.
FOLDER_VARIABLE = "OUZEL_STEP_STATS"


def dump(snapshot: Snapshot, folder: str | os.PathLike[str]) -> Path:
    """Write `<process>.<pid>.json`, whole or not at all, so that a reader never meets half a file.

    :raises OSError: when the folder can neither be made nor written to
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{snapshot.process}.{os.getpid()}.json"
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(snapshot.to_json()), encoding="utf-8")
    return unfinished.replace(path)


def load(folder: str | os.PathLike[str]) -> list[Snapshot]:
    """Every dump in `folder`, merged to one snapshot for each role.

    :raises OSError: when a file cannot be read
    :raises ValueError: when a file isn't a dump; the message names it
    """
    return merge(_read(path) for path in sorted(Path(folder).glob("*.json")))


def _read(path: Path) -> Snapshot:
    try:
        return Snapshot.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a dump of step statistics: {error!r}") from error
