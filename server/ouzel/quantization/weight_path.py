"""Which four-bit weights a device should be given: the fast kernel on each wants a layout that the others can't read.

What vLLM 0.32 does is read from its source (`vllm.platforms.cpu.CpuPlatform.import_kernels`,
`model_executor/kernels/linear/mixed_precision/cpu.py`): it loads one of three libraries, by AVX-512 and its BF16 part;
`cpu_gemm_wna16` is in both with AVX-512 and in none without, `int4_scaled_mm_cpu` in the one with BF16 alone, and that
one is taken where there are AMX tiles.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ouzel.config.probe import DeviceProbe
from ouzel.errors import ConfigError
from ouzel.quantization.groups import FORMAT

__all__ = ["OVERRIDE", "PATHS", "Choice", "Priority", "WeightPath", "check_method", "choose", "lacking"]

Priority = Literal["speed", "fidelity"]
#: the environment's variable that names a path
OVERRIDE = "OUZEL_WEIGHT_PATH"

_X86, _ARM = ("x86_64", "amd64"), ("aarch64", "arm64")
_AVX2 = frozenset({"avx2", "fma"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@dataclass(frozen=True, slots=True)
class WeightPath:
    """A kernel, and the weights that it reads."""

    name: str
    kernel: str
    layout: str
    #: a command of ours, or what there is to do
    make: str
    #: of each machine that it runs on (`uname -m`), the features that its cores must have
    needs: Mapping[str, frozenset[str]]
    runs_in_vllm: bool = True
    #: machines, and what their cores have, on which we have run it and measured how faithful it is
    verified_on: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """A path for one device."""

    path: WeightPath
    verified: bool
    why: str

    def facts(self) -> dict[str, str | bool]:
        """As JSON has it."""
        path = self.path
        return {
            "path": path.name,
            "kernel": path.kernel,
            "layout": path.layout,
            "runs_in_vllm": path.runs_in_vllm,
            "verified": self.verified,
            "why": self.why,
            "make": path.make,
        }


def _each(machines: tuple[str, ...], features: frozenset[str]) -> dict[str, frozenset[str]]:
    return dict.fromkeys(machines, features)


PATHS = {
    path.name: path
    for path in (
        WeightPath(
            name="w4a8",
            kernel="int4_scaled_mm_cpu (vLLM's CPUWNA16LinearKernel, AMX, activations in 8 bits)",
            layout="GPTQ without act-order, or AWQ",
            make="ouzel gptq-export SRC DST, or ouzel awq-export SRC DST",
            needs=_each(_X86, _AVX512 | {"avx512_bf16", "avx512_vnni", "amx_tile", "amx_int8"}),
        ),
        WeightPath(
            name="w4a16",
            kernel="_weight_int4pack_mm_for_cpu (PyTorch's tinygemm) for a row, bf16 GEMM for more",
            layout="ouzel_w4a16, group-wise asymmetric",
            make="ouzel quantize SRC DST",
            needs=_each(_X86, _AVX2) | _each(_ARM, frozenset({"asimd"})),
            verified_on=_each(_X86, _AVX512),
        ),
        WeightPath(
            name="wna16",
            kernel="cpu_gemm_wna16 (vLLM's CPUWNA16LinearKernel, activations in bf16)",
            layout="GPTQ or AWQ",
            make="ouzel gptq-export SRC DST, or ouzel awq-export SRC DST",
            needs=_each(_X86, _AVX512),
            verified_on=_each(_X86, _AVX512),
        ),
        WeightPath(
            name="phone",
            kernel="the phone's own accelerator",
            layout="an exported graph, weights in 8 bits, activations in 16, calibrated (w8a16)",
            make="export the bf16 checkpoint's graph with torch.export and calibrate w8a16 with the phone's toolkit",
            needs={},
            runs_in_vllm=False,
        ),
        WeightPath(
            name="gguf",
            kernel="llama.cpp",
            layout="GGUF Q4_K_M",
            make="ouzel gguf-export SRC FILE --type Q4_K_M, and serve it beside: ouzel serve --llm-url",
            needs={},
            runs_in_vllm=False,
        ),
    )
}


#: by the method that a checkpoint's config.json names
_BY_METHOD = {FORMAT: "w4a16", "gptq": "wna16", "awq": "wna16"}


def check_method(method: str | None, probe: DeviceProbe) -> None:
    """Before a kernel is asked for instructions that aren't there; other methods are vLLM's own business.

    :raises ConfigError: when the device can't multiply by weights that are quantized so
    """
    if method in _BY_METHOD and (missing := lacking(PATHS[_BY_METHOD[method]], probe)):
        raise ConfigError(
            f"weights quantized by {method!r} need {', '.join(missing)}, which this {probe.machine} device hasn't; "
            "`ouzel weight-path` says which it can use",
            param="llm.quantization",
        )


def choose(probe: DeviceProbe, priority: Priority = "speed", environ: Mapping[str, str] = os.environ) -> Choice:
    """The path for a device, or the one that `OUZEL_WEIGHT_PATH` names.

    :raises ConfigError: when the variable names none, or one whose instructions this device doesn't have
    """
    if named := environ.get(OVERRIDE):
        return _named(named, probe)
    if probe.phone:
        return _choice("phone", probe, "vLLM doesn't run on a phone, whose fast units take whole graphs")
    if not lacking(PATHS["w4a8"], probe) and priority == "speed":
        return _choice("w4a8", probe, "AMX multiplies 8-bit tiles: the fastest here, and the least faithful")
    if not (missing := lacking(PATHS["w4a16"], probe)):
        return _choice("w4a16", probe, _why_w4a16(probe, priority))
    return _choice("gguf", probe, f"vLLM's kernels for the CPU need {' or '.join(missing)}, which isn't here")


def lacking(path: WeightPath, probe: DeviceProbe) -> list[str]:
    """What a path needs and a device hasn't: its kind of machine, or features of the cores; nothing when it runs.

    An instruction that isn't there kills the process, so this is asked before a kernel is.
    """
    if not path.runs_in_vllm:
        return []
    if probe.phone:
        return ["a machine that is no phone"]
    if probe.machine not in path.needs:
        return [f"a machine of {', '.join(path.needs)}"]
    return sorted(path.needs[probe.machine] - probe.features)


def _choice(name: str, probe: DeviceProbe, why: str) -> Choice:
    path = PATHS[name]
    proven = path.verified_on.get(probe.machine)
    return Choice(path, proven is not None and proven <= probe.features, why)


def _named(name: str, probe: DeviceProbe) -> Choice:
    runnable = [path.name for path in PATHS.values() if not lacking(path, probe)]
    if name not in PATHS:
        raise ConfigError(
            f"{OVERRIDE} is {name!r}; expected one of {', '.join(PATHS)} (this device runs {', '.join(runnable)})",
            param=OVERRIDE,
        )
    if missing := lacking(PATHS[name], probe):
        raise ConfigError(
            f"{OVERRIDE} is {name!r}, which needs {', '.join(missing)}; this {probe.machine} device hasn't that, and "
            f"would die of an illegal instruction: name one of {', '.join(runnable)}",
            param=OVERRIDE,
        )
    if name == "wna16" and not lacking(PATHS["w4a8"], probe):
        why = f"{OVERRIDE} names it; with AMX, vLLM rounds activations to 8 bits unless VLLM_CPU_INT4_W4A8=0"
        return Choice(PATHS[name], False, why)
    return _choice(name, probe, f"{OVERRIDE} names it")


def _why_w4a16(probe: DeviceProbe, priority: Priority) -> str:
    if probe.machine in _ARM:
        return (
            "tinygemm is PyTorch's and builds for ARM, where we have not run it; vLLM's own kernel for ARM "
            "(Dynamic4bitLinearKernel, activations in 8 bits) reads compressed-tensors alone"
        )
    if priority == "fidelity" and not lacking(PATHS["w4a8"], probe):
        return "an asymmetric grid and activations in bf16 are the most faithful, at a lower rate than AMX's 8 bits"
    if lacking(PATHS["wna16"], probe):
        return (
            "no AVX-512, and without it vLLM has no kernel for GPTQ or AWQ; tinygemm runs on AVX2 (it was tested with "
            "torch held to that, not inside vLLM)"
        )
    bf16 = "" if "avx512_bf16" in probe.features else "; without AVX-512 BF16 prompts are read more slowly"
    return f"no AMX for vLLM's W4A8; of what is left tinygemm is the fastest for a single stream{bf16}"
