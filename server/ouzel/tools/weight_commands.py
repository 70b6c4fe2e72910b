"""The commands that turn one checkpoint into another, offline: four bits and back, rotation, GGUF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["add_weight_commands"]

Source = Annotated[str, typer.Argument(metavar="SRC", help="A pulled model, a checkpoint folder or a hub id.")]
Target = Annotated[Path, typer.Argument(metavar="DST", help="A new folder.")]
Group = Annotated[int, typer.Option("--group", help="The most inputs that share a scale: 128, 64 or 32.")]
NoSearch = Annotated[bool, typer.Option("--no-search", help="Take each group's range as it is.")]
Feedback = Annotated[
    bool, typer.Option("--feedback", help="Let later inputs make good what rounding did; needs a text.")
]
TEXT = "A file of text to calibrate with, or `default`."


def add_weight_commands(app: typer.Typer) -> None:
    """Give `app` the commands of this file."""
    app.command("gptq-export")(gptq)
    app.command("awq-export")(awq)


def gptq(
    source: Source,
    target: Target,
    group: Group = 128,
    no_search: NoSearch = False,
    calibrate: Annotated[str | None, typer.Option("--calibrate", metavar="TEXT", help=TEXT)] = None,
    feedback: Feedback = False,
) -> None:
    """Write a checkpoint in GPTQ's format: symmetric, four bits, for vLLM's own kernels."""
    from ouzel.errors import RequestError
    from ouzel.tools.gptq_export import gptq_export
    from ouzel.tools.model_store import find_model

    if feedback and calibrate is None:
        raise RequestError("--feedback needs --calibrate TEXT, or --calibrate default", param="feedback")
    folder = find_model(source)
    seen = None
    if calibrate is not None:
        from ouzel.tools import calibration

        _check_target(target)
        seen = calibration.calibrate(folder, calibration.read_text(calibrate), second_moment=feedback)
    used = gptq_export(folder, target, group=group, search=not no_search, seen=seen)
    typer.echo(f"{target}: GPTQ, groups of {used}", err=True)


def awq(
    source: Source,
    target: Target,
    group: Group = 128,
    no_search: NoSearch = False,
    calibrate: Annotated[str, typer.Option("--calibrate", metavar="TEXT", help=TEXT)] = "default",
    feedback: Feedback = False,
) -> None:
    """Write a checkpoint in AWQ's format: asymmetric, four bits, scaled by what its layers are given."""
    from ouzel.tools import calibration
    from ouzel.tools.awq_export import awq_export
    from ouzel.tools.model_store import find_model

    folder = find_model(source)
    _check_target(target)
    seen = calibration.calibrate(folder, calibration.read_text(calibrate), second_moment=feedback)
    used = awq_export(folder, target, seen, group=group, search=not no_search)
    typer.echo(f"{target}: AWQ, groups of {used}", err=True)


def _check_target(target: Path) -> None:
    """Before minutes are spent."""
    from ouzel.tools.folders import refuse_existing

    refuse_existing(target)
