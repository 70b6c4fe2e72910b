"""What each linear layer of a model is given while it reads a short text, in the engine that serves every model here.

vLLM holds some layers in one that the checkpoint holds apart; these read the same, and each gets it under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ouzel.config import load_config
from ouzel.engines.llm import build
from ouzel.errors import ConfigError, RequestError
from ouzel.quantization.activations import Activations, Collector
from ouzel.stats.timeline import InitTimeline
from ouzel.tools.deployment import model_profile

__all__ = ["calibrate", "read_text"]

#: tokens that are read in one piece, the length that the model is served with for it, and those of the whole text
_PIECE, _CONTEXT, _MOST = 384, 512, 16_384
_HEAD = "lm_head"


def read_text(name: str) -> str:
    """The text that comes with this package where the name is `default`, else that of a file.

    :raises RequestError: when the file can't be read as text, or has none
    """
    if name == "default":
        return files("ouzel.tools").joinpath("calibration.txt").read_text(encoding="utf-8")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{name} can't be read as text: {error}", param="text") from error
    if not text.strip():
        raise RequestError(f"{name} has no text", param="text")
    return text


def calibrate(folder: Path, text: str, *, second_moment: bool = False) -> dict[str, Activations]:
    """Activations by the names of the linear layers in the checkpoint, the output head's too.

    vLLM's state is one a process, so this is for commands, not for a server.

    :param second_moment: collect that too: 4 K² bytes for each layer of K inputs
    :raises CheckpointError: when the folder is no model's
    :raises ConfigError: when vLLM isn't installed, or can't serve it
    """
    ids = _token_ids(folder, text)
    settings = {
        "llm.dtype": "bfloat16",
        "llm.eager": "true",
        "llm.max_num_seqs": "1",
        "llm.max_model_len": str(_CONTEXT),
        "llm.prefill_tokens": str(_PIECE),
    }
    try:
        core = build(folder, load_config((model_profile(folder),), flags=settings).config, InitTimeline("llm"))
    except ImportError as error:
        raise ConfigError("calibration needs vLLM: pip install 'ouzel[llm]'") from error
    from ouzel.engines.llm.scoring import Scorer

    scorer, collecting = Scorer(core), _Collecting(core.engine.model, second_moment)
    for start in range(0, len(ids), _PIECE):
        scorer.greedy(ids[start : start + _PIECE], 1)
    return collecting.end()


def _token_ids(folder: Path, text: str) -> list[int]:
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json, which calibration reads its text with")
    ids: list[int] = Tokenizer.from_file(str(path)).encode(text).ids
    return ids[:_MOST]


class _Collecting:
    """Hooks on the linear layers of a model of vLLM, until `end`."""

    def __init__(self, model: nn.Module, second_moment: bool) -> None:
        from vllm.model_executor.layers.linear import LinearBase

        self._second_moment = second_moment
        self._collectors: dict[str, Collector] = {}
        self._names: dict[str, list[str]] = {}
        packed: Mapping[str, list[str]] = getattr(model, "packed_modules_mapping", {})
        linears = {name: module for name, module in model.named_modules() if isinstance(module, LinearBase)}
        self._hooks = [module.register_forward_pre_hook(self._input_of(name)) for name, module in linears.items()]
        for name in linears:
            at, _, own = name.rpartition(".")
            self._names[name] = [f"{at}.{part}" for part in packed.get(own, [own])]
        # The head isn't called as a module. It reads what the model gives, of which all rows are wanted.
        self._names[_HEAD] = [_HEAD]
        self._hooks.append(model.register_forward_hook(self._output_for(_HEAD)))

    def end(self) -> dict[str, Activations]:
        for hook in self._hooks:
            hook.remove()
        found = {name: collector.activations() for name, collector in self._collectors.items()}
        return {own: found[name] for name in found for own in self._names[name]}

    def _input_of(self, name: str) -> Callable[[nn.Module, tuple[Any, ...]], None]:
        def hook(_: nn.Module, given: tuple[Any, ...]) -> None:
            self._add(name, given[0])

        return hook

    def _output_for(self, name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        def hook(_: nn.Module, __: tuple[Any, ...], output: Any) -> None:
            self._add(name, output)

        return hook

    def _add(self, name: str, x: Tensor) -> None:
        # x: [T, K]
        if name not in self._collectors:
            self._collectors[name] = Collector(second_moment=self._second_moment)
        self._collectors[name].add(x)
