"""What a model's folder says before anything is loaded: its architecture, and what its weights will take."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ouzel.errors import CheckpointError
from ouzel.quantization.groups import is_packed, packed_bytes

__all__ = ["Checkpoint", "read_checkpoint"]

#: as safetensors names them; those of whole numbers and packed ones stay what they are
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_LARGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder in Hugging Face's layout."""

    folder: Path
    model_type: str
    architecture: str
    #: in memory, in the type that they are served in
    weights_bytes: int
    #: of conversations; None where it has none
    template: str | None = None
    #: the method by which its weights are quantized already
    quantization: str | None = None

    @property
    def name(self) -> str:
        """The folder's own, or where it lies in the hub's cache (models--ORG--NAME/snapshots/HASH) the hub's."""
        cached = self.folder.parent.parent.name
        if self.folder.parent.name == "snapshots" and cached.startswith("models--"):
            return cached.removeprefix("models--").replace("--", "/", 1)
        return self.folder.name


def read_checkpoint(folder: Path, bytes_per_value: int, group: int | None = None) -> Checkpoint:
    """
    :param bytes_per_value: of the type that floating-point weights are served in
    :param group: the most inputs that share a scale, where weights in floating point are put into four bits at load
    :raises CheckpointError: when folder, config.json, tokenizer or weights are missing or torn
    :raises ConfigError: when no group divides the width of a weight
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is no folder; llm.model names a checkpoint folder in Hugging Face's layout")
    config = _read_json(folder / "config.json")
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not architectures:
        raise CheckpointError(f"{folder / 'config.json'} names no architectures; expected e.g. ['LlamaForCausalLM']")
    if not (folder / "tokenizer_config.json").is_file() and not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder} has no tokenizer.json")
    quantized = config.get("quantization_config")
    method = str(quantized.get("quant_method")) if isinstance(quantized, dict) else None
    weights = _weights_bytes(folder, bytes_per_value, group if method is None else None)
    kind = str(config.get("model_type", ""))
    return Checkpoint(folder, kind, str(architectures[0]), weights, _template(folder), method)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is no JSON object")
    return content


def _template(folder: Path) -> str | None:
    """From chat_template.jinja, as newer checkpoints have it, or tokenizer_config.json; of several, the default one."""
    if (file := folder / "chat_template.jinja").is_file():
        return file.read_text(encoding="utf-8")
    path = folder / "tokenizer_config.json"
    template = _read_json(path).get("chat_template") if path.is_file() else None
    if isinstance(template, list):
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    return template if isinstance(template, str) else None


def _weights_bytes(folder: Path, bytes_per_value: int, group: int | None) -> int:
    if files := sorted(folder.glob("*.safetensors")):
        return sum(_tensors_bytes(path, bytes_per_value, group) for path in files)
    if files := sorted(folder.glob("*.bin")):
        return sum(path.stat().st_size for path in files)
    raise CheckpointError(f"{folder} has no weights; expected *.safetensors")


def _tensors_bytes(path: Path, bytes_per_value: int, group: int | None) -> int:
    """From the header: 8 bytes of its length, then JSON of each tensor's type, shape and place."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length <= _LARGEST_HEADER else b""
    try:
        tensors = json.loads(header)
        tensors.pop("__metadata__", None)
        end = max((tensor["data_offsets"][1] for tensor in tensors.values()), default=0)
        sizes = [_tensor_bytes(name, tensor, bytes_per_value, group) for name, tensor in tensors.items()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is no safetensors file: its header can't be read") from error
    if path.stat().st_size < 8 + length + end:
        raise CheckpointError(f"{path} is torn: it has {path.stat().st_size} bytes of {8 + length + end}")
    return sum(sizes)


def _tensor_bytes(name: str, tensor: dict[str, Any], bytes_per_value: int, group: int | None) -> int:
    if tensor["dtype"] in _FLOATS:
        if group is not None and is_packed(name, tensor["shape"]):
            return packed_bytes(tensor["shape"], group)
        return math.prod(tensor["shape"]) * bytes_per_value
    start, end = tensor["data_offsets"]
    return int(end) - int(start)
