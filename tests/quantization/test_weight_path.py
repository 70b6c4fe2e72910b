from __future__ import annotations

import pytest

from ouzel.config.probe import DeviceProbe, probe_device
from ouzel.errors import ConfigError
from ouzel.quantization.weight_path import OVERRIDE, PATHS, Priority, check_method, choose, lacking

AVX2 = frozenset({"avx2", "fma", "sse4_2"})
SKYLAKE = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
ICE_LAKE = SKYLAKE | {"avx512_vnni"}
GENOA = ICE_LAKE | {"avx512_bf16"}
SAPPHIRE_RAPIDS = GENOA | {"amx_tile", "amx_int8", "amx_bf16"}
#: a virtual machine whose kernel hides AVX-512 BF16, or AMX's multiplication
WITHOUT_BF16 = SAPPHIRE_RAPIDS - {"avx512_bf16"}
TILES_ALONE = SAPPHIRE_RAPIDS - {"amx_int8"}
NEON = frozenset({"fp", "asimd"})
GRAVITON = NEON | {"asimddp", "i8mm", "bf16", "sve"}


def device(machine: str = "x86_64", features: frozenset[str] = GENOA, *, phone: bool = False) -> DeviceProbe:
    return DeviceProbe(8 << 30, 2, machine, features, phone)


@pytest.mark.parametrize(
    ("machine", "features", "phone", "speed", "fidelity", "verified", "why"),
    [
        ("x86_64", SAPPHIRE_RAPIDS, False, "w4a8", "w4a16", (False, True), "AMX"),
        ("x86_64", WITHOUT_BF16, False, "w4a16", "w4a16", (True, True), "without AVX-512 BF16"),
        ("x86_64", TILES_ALONE, False, "w4a16", "w4a16", (True, True), "no AMX"),
        ("x86_64", GENOA, False, "w4a16", "w4a16", (True, True), "no AMX for vLLM's W4A8"),
        ("x86_64", ICE_LAKE, False, "w4a16", "w4a16", (True, True), "without AVX-512 BF16"),
        ("x86_64", SKYLAKE, False, "w4a16", "w4a16", (True, True), "without AVX-512 BF16"),
        ("x86_64", AVX2, False, "w4a16", "w4a16", (False, False), "no AVX-512, and without it vLLM has no kernel"),
        ("x86_64", frozenset({"sse4_2"}), False, "gguf", "gguf", (False, False), "need avx2 or fma"),
        ("aarch64", GRAVITON, False, "w4a16", "w4a16", (False, False), "we have not run it"),
        ("aarch64", NEON, False, "w4a16", "w4a16", (False, False), "we have not run it"),
        ("armv7l", frozenset({"neon"}), False, "gguf", "gguf", (False, False), "need a machine of x86_64"),
        ("riscv64", frozenset(), False, "gguf", "gguf", (False, False), "need a machine of x86_64"),
        ("aarch64", GRAVITON, True, "phone", "phone", (False, False), "vLLM doesn't run on a phone"),
        ("x86_64", SAPPHIRE_RAPIDS, True, "phone", "phone", (False, False), "vLLM doesn't run on a phone"),
    ],
)
def test_each_class_of_device(
    machine: str,
    features: frozenset[str],
    phone: bool,
    speed: str,
    fidelity: str,
    verified: tuple[bool, bool],
    why: str,
) -> None:
    probe = device(machine, features, phone=phone)
    fast, faithful = choose(probe, "speed", {}), choose(probe, "fidelity", {})
    assert (fast.path.name, faithful.path.name) == (speed, fidelity)
    assert (fast.verified, faithful.verified) == verified
    assert why in fast.why
    assert fast.path.runs_in_vllm == (speed in {"w4a8", "w4a16", "wna16"})


def test_with_amx_fidelity_says_what_it_costs() -> None:
    assert "lower rate than AMX" in choose(device(features=SAPPHIRE_RAPIDS), "fidelity", {}).why


def test_a_phone_is_told_what_to_export() -> None:
    facts = choose(device("aarch64", GRAVITON, phone=True), "speed", {}).facts()
    assert facts["runs_in_vllm"] is False
    assert "w8a16" in str(facts["layout"]) and "torch.export" in str(facts["make"])


@pytest.mark.parametrize("priority", ["speed", "fidelity"])
@pytest.mark.parametrize("name", ["w4a16", "wna16", "gguf", "phone"])
def test_the_environment_names_another(name: str, priority: Priority) -> None:
    choice = choose(device(), priority, {OVERRIDE: name})
    assert (choice.path.name, choice.why) == (name, f"{OVERRIDE} names it")


def test_an_unknown_name_is_told_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="is 'w4a4'; expected one of w4a8, w4a16, wna16, phone, gguf .this device"):
        choose(device(), "speed", {OVERRIDE: "w4a4"})


@pytest.mark.parametrize(
    ("named", "probe", "missing"),
    [
        ("w4a8", device(), "which needs amx_int8, amx_tile; this x86_64 device"),
        ("wna16", device(features=AVX2), "which needs avx512bw, avx512dq, avx512f, avx512vl"),
        ("w4a16", device(features=frozenset()), "which needs avx2, fma"),
        ("wna16", device("aarch64", GRAVITON), "which needs a machine of x86_64"),
        ("w4a16", device("aarch64", GRAVITON, phone=True), "which needs a machine that is no phone"),
    ],
)
def test_instructions_that_are_not_there_are_refused_before_they_kill(
    named: str, probe: DeviceProbe, missing: str
) -> None:
    with pytest.raises(ConfigError, match=missing) as refused:
        choose(probe, "speed", {OVERRIDE: named})
    assert named not in str(refused.value).split("name one of ")[1].split(", ")


def test_an_empty_variable_names_nothing() -> None:
    assert choose(device(), "speed", {OVERRIDE: ""}).path.name == "w4a16"


def test_this_machine_has_a_path() -> None:
    probe = probe_device()
    assert not lacking(choose(probe, "speed", {}).path, probe)


def test_nothing_is_fit_for_no_machine() -> None:
    assert all(path.needs for path in PATHS.values() if path.runs_in_vllm)


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_a_quantized_checkpoint_on_a_device_that_has_no_kernel_for_it(method: str) -> None:
    with pytest.raises(ConfigError, match=f"quantized by '{method}' need avx512bw, .* which this x86_64 device hasn't"):
        check_method(method, device(features=AVX2))
    check_method(method, device(features=SKYLAKE))


def test_other_methods_are_left_to_vllm() -> None:
    for method in (None, "fp8", "ouzel_w4a16"):
        check_method(method, device(features=AVX2))


def test_vllms_kernel_on_a_machine_with_amx_is_another_one() -> None:
    choice = choose(device(features=SAPPHIRE_RAPIDS), environ={OVERRIDE: "wna16"})
    assert not choice.verified and "VLLM_CPU_INT4_W4A8=0" in choice.why
