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
    app.command("quantize")(quantize_checkpoint)
    app.command("gptq-export")(gptq)
    app.command("awq-export")(awq)
    app.command("expand")(expand_checkpoint)
    app.command("rotate")(rotate_checkpoint)
    app.command("gguf-export")(gguf)


def quantize_checkpoint(
    source: Source,
    target: Target,
    group: Group = 128,
    calibrate: Annotated[str | None, typer.Option("--calibrate", metavar="TEXT", help=TEXT)] = None,
) -> None:
    """Write a Llama-style or Spark checkpoint in four bits, as the language stage serves it.

    With a text to calibrate with, later inputs make good what rounding did.
    """
    from ouzel.tools.model_store import find_model
    from ouzel.tools.quantize import quantize

    folder, seen = find_model(source), None
    if calibrate is not None:
        from ouzel.tools import calibration

        _check(folder, target, group)
        seen = calibration.calibrate(folder, calibration.read_text(calibrate), second_moment=True)
    quantize(folder, target, group, seen)
    typer.echo(f"{target}: W4A16, groups of at most {group}; serve it with --llm {target}", err=True)


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

        _check(folder, target, group)
        seen = calibration.calibrate(folder, calibration.read_text(calibrate), second_moment=feedback)
    used = gptq_export(folder, target, group=group, search=not no_search, seen=seen)
    typer.echo(f"{target}: GPTQ, groups of {used}", err=True)


def awq(
    source: Source,
    target: Target,
    group: Group = 128,
    no_search: NoSearch = False,
    calibrate: Annotated[str, typer.Option("--calibrate", metavar="TEXT", help=TEXT)] = "default",
    feedback: Annotated[
        bool, typer.Option("--feedback/--no-feedback", help="Let later inputs make good what rounding did.")
    ] = True,
) -> None:
    """Write a checkpoint in AWQ's format: asymmetric, four bits, scaled by what its layers are given."""
    from ouzel.tools import calibration
    from ouzel.tools.awq_export import awq_export
    from ouzel.tools.model_store import find_model

    folder = find_model(source)
    _check(folder, target, group)
    seen = calibration.calibrate(folder, calibration.read_text(calibrate), second_moment=feedback)
    used = awq_export(folder, target, seen, group=group, search=not no_search)
    typer.echo(f"{target}: AWQ, groups of {used}", err=True)


def expand_checkpoint(source: Source, target: Target) -> None:
    """Write a four-bit checkpoint (W4A16, GPTQ or AWQ) back in bfloat16."""
    from ouzel.tools.expand import expand
    from ouzel.tools.model_store import find_model

    expand(find_model(source), target)


def rotate_checkpoint(
    source: Source,
    target: Target,
    seed: Annotated[int, typer.Option(min=0, help="Of the rotation.")] = 0,
    dtype: Annotated[str, typer.Option(help="bfloat16 or float32.")] = "bfloat16",
) -> None:
    """Rotate a checkpoint's residual stream at random: the same function, weights that are on no grid."""
    from ouzel.tools.model_store import find_model
    from ouzel.tools.rotate import rotate

    rotate(find_model(source), target, seed=seed, dtype=dtype)


def gguf(
    source: Source,
    target: Annotated[Path, typer.Argument(metavar="DST", help="A new file.")],
    kind: Annotated[str, typer.Option("--type", help="F32, F16, BF16, Q8_0, Q4_0, Q4_1 or Q4_K_M.")] = "F16",
) -> None:
    """Write a Llama-style or Spark checkpoint as a GGUF for llama.cpp, which quantizes it."""
    from ouzel.tools.gguf_export import gguf_export
    from ouzel.tools.model_store import find_model

    gguf_export(find_model(source), target, kind)


def _check(source: Path, target: Path, group: int) -> None:
    """Before a text is read, for minutes."""
    from ouzel.errors import ConfigError
    from ouzel.quantization.groups import GROUPS
    from ouzel.tools.folders import SourceFolder, refuse_existing, refuse_quantized

    refuse_existing(target)
    if group not in GROUPS:
        raise ConfigError(f"a group of {group} is not one of {', '.join(map(str, GROUPS))}", param="group")
    refuse_quantized(SourceFolder(source))
