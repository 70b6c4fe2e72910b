from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ouzel.config import DeployConfig, load_config
from ouzel.errors import ConfigError

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


@pytest.fixture
def root(write: Write) -> Path:
    """A profile `small` whose values differ from every default."""
    write("deploy/small/qwen3_tts.yaml", "talker:\n  threads: 3\n  max_num_seqs: 2\n")
    server = write("deploy/small/server.yaml", "orchestrator:\n  stop_grace_s: 7\ngateway: {port: 9000}\n")
    return server.parents[1]


def test_the_profiles_values_take_effect_and_defaults_fill_the_rest(root: Path) -> None:
    effective = load_config(["qwen3_tts"], deploy_profile="small", environ={}, root=root)
    assert effective.config.orchestrator.stop_grace_s == 7.0
    assert effective.config.talker.threads == 3
    assert effective.config.limits == DeployConfig().limits
    assert effective.sources["orchestrator.stop_grace_s"] == "deploy/small/server.yaml:2"
    assert effective.sources["gateway.port"] == "deploy/small/server.yaml:3"
    assert effective.sources["limits.max_waiting"] == "default"


def test_each_layer_beats_the_one_before(root: Path) -> None:
    def derived(so_far: DeployConfig) -> dict[str, object]:
        return {"talker.threads": 4 if so_far.talker.dtype == "float32" else 2}

    environ = {"OUZEL_TALKER__THREADS": "5"}
    flags = {"talker.threads": 6}

    def threads(**layers: object) -> tuple[int, str]:
        effective = load_config(
            ["qwen3_tts"],
            deploy_profile="small",
            root=root,
            **{"environ": {}, **layers},  # type: ignore[arg-type]
        )
        return effective.config.talker.threads, effective.sources["talker.threads"]

    assert threads() == (3, "deploy/small/qwen3_tts.yaml:2")
    assert threads(derive=derived) == (4, "derived from the device")
    assert threads(derive=derived, environ=environ) == (5, "environment OUZEL_TALKER__THREADS")
    assert threads(derive=derived, environ=environ, flags=flags) == (6, "flag")
    assert threads(derive=derived, flags={"talker.threads": None}) == (4, "derived from the device")
    assert threads(derive=derived, flags={"talker.dtype": "bfloat16"})[0] == 2, "it knows what was said"


def test_what_the_device_derives_beats_a_profile_but_not_the_users_file(root: Path, write: Write) -> None:
    own = write("own.yaml", "base_config: profile:small\ntalker: {threads: 1}\n")
    derived = {"talker.threads": 8, "talker.max_num_seqs": 1}
    effective = load_config(["qwen3_tts"], deploy_config=own, derive=lambda _: derived, environ={}, root=root)
    assert (effective.config.talker.threads, effective.config.talker.max_num_seqs) == (1, 1)
    assert effective.config.gateway.port == 9000


def test_a_deployment_can_refuse_what_the_device_derives(root: Path) -> None:
    effective = load_config(
        ["qwen3_tts"],
        deploy_profile="small",
        derive=lambda _: {"talker.threads": 8},
        environ={"OUZEL_ORCHESTRATOR__DERIVE": "false"},
        root=root,
    )
    assert effective.config.talker.threads == 3


def test_profile_and_config_exclude_each_other(root: Path) -> None:
    with pytest.raises(ConfigError, match="'small' and deploy_config 'own.yaml' exclude each other"):
        load_config(deploy_profile="small", deploy_config="own.yaml", environ={}, root=root)
    with pytest.raises(ConfigError, match="exclude each other"):
        load_config(environ={"OUZEL_DEPLOY_PROFILE": "a", "OUZEL_DEPLOY_CONFIG": "b"}, root=root)


def test_an_argument_beats_the_environments_choice(root: Path) -> None:
    environ = {"OUZEL_DEPLOY_CONFIG": "/nowhere.yaml"}
    assert load_config(deploy_profile="small", environ=environ, root=root).config.gateway.port == 9000
    with pytest.raises(ConfigError, match=r"deploy_config: /nowhere.yaml can't be read: No such file"):
        load_config(environ=environ, root=root)


def test_an_unknown_profile_names_the_nearest(root: Path) -> None:
    with pytest.raises(ConfigError, match="unknown deploy profile 'smal'; did you mean 'small'"):
        load_config(deploy_profile="smal", environ={}, root=root)
    with pytest.raises(ConfigError, match="'small' has no qwen3_tss.yaml; did you mean 'qwen3_tts'"):
        load_config(["qwen3_tss"], deploy_profile="small", environ={}, root=root)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("talker:\n  threds: 1\n", r"own.yaml:2: unknown setting 'talker.threds'; did you mean 'talker.threads'\?"),
        ("talkr: {threads: 1}\n", r"own.yaml:1: unknown setting 'talkr'; did you mean 'talker'\?"),
        ("limits: {port: 1}\n", r"unknown setting 'limits.port'; did you mean 'gateway.port'\?"),
        ("talker:\n  threads: two\n", r"own.yaml:2: talker.threads is 'two'; expected a whole number at least 1"),
        ("talker: {threads: true}\n", "talker.threads is True; expected a whole number"),
        ("talker: {threads: 0}\n", "talker.threads is 0; expected a whole number at least 1"),
        ("talker: {nice: 20}\n", "talker.nice is 20; expected a whole number at least 0, at most 19"),
        ("talker: {ring_bytes: 65537}\n", "expected a whole number at least 65536, a multiple of 64"),
        ("talker: {cpus: [0, x]}\n", "expected a list, each entry a whole number at least 0, or null"),
        ("talker: {dtype: float16}\n", "talker.dtype is 'float16'; expected one of float32, bfloat16"),
        ("gateway: {insecure: 1}\n", "gateway.insecure is 1; expected true or false"),
        ("talker: {threads: {a: 1}}\n", "talker.threads is {'a': 1}; expected"),
        ("limits: {progress_deadline_s: .nan}\n", "progress_deadline_s is nan; expected a number at least 0.1"),
        ("talker: {chunk_frames: [4, 2]}\n", r"chunk_frames \[4, 2\]: 2 comes after 4, and sizes never decrease"),
        ("talker: {chunk_frames: []}\n", "chunk_frames.*give at least one chunk size"),
        ("limits: {buffer_frames: 24}\n", "buffer_frames is 24; expected at least the largest chunk, 25"),
        (
            "talker: {threads: 1}\ntalker: {threads: 2}\n",
            r"own.yaml:2: talker.threads was said before, at .*own.yaml:1",
        ),
        ("talker: 3\n", r"own.yaml:1: expected settings below talker, found a value"),
        ("- 3\n", "expected settings below the top"),
        ("talker: [\n", "own.yaml is no YAML"),
        ("talker: {threads: !!python/name:os.system }\n", "own.yaml is no YAML"),
        ("base_config: 3\n", r"own.yaml:1: base_config is 3; expected a path or profile:NAME"),
        ("base_config: missing.yaml\n", r"own.yaml:1: .*missing.yaml can't be read: No such file"),
    ],
)
def test_a_faulty_file_says_where_and_what_would_be_valid(text: str, complaint: str, root: Path, write: Write) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config(deploy_config=write("own.yaml", text), environ={}, root=root)


def test_a_base_is_anchored_at_the_overlays_own_folder(
    root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("site/base/common.yaml", "talker: {threads: 5, max_num_seqs: 3}\nlimits: {max_waiting: 1}\n")
    write("site/middle.yaml", "base_config: base/common.yaml\ntalker: {threads: 6}\n")
    top = write("site/device/top.yaml", "base_config: ../middle.yaml\nlimits: {max_waiting: 2}\n")
    monkeypatch.chdir(root)
    effective = load_config(deploy_config=top, environ={}, root=root)
    talker = effective.config.talker
    assert (talker.threads, talker.max_num_seqs, effective.config.limits.max_waiting) == (6, 3, 2)
    assert effective.sources["talker.max_num_seqs"].endswith("site/base/common.yaml:1")


def test_a_list_of_an_overlay_replaces_the_bases(root: Path, write: Write) -> None:
    write("base.yaml", "talker: {chunk_frames: [1, 2, 3, 4]}\n")
    top = write("top.yaml", "base_config: base.yaml\ntalker: {chunk_frames: [5, 6]}\n")
    assert load_config(deploy_config=top, environ={}, root=root).config.talker.chunk_frames == (5, 6)


def test_a_circle_of_bases_is_an_error_that_draws_it(root: Path, write: Write) -> None:
    first = write("first.yaml", "base_config: second.yaml\n")
    write("second.yaml", "base_config: first.yaml\n")
    with pytest.raises(ConfigError, match="circle: .*first.yaml → .*second.yaml → .*first.yaml"):
        load_config(deploy_config=first, environ={}, root=root)


def test_a_profile_cannot_build_on_a_profile_by_name(root: Path, write: Write) -> None:
    write("deploy/small/server.yaml", "base_config: profile:small\n")
    with pytest.raises(ConfigError, match="a profile's own file names its base by path, not 'profile:small'"):
        load_config(deploy_profile="small", environ={}, root=root)


def test_the_environment_is_parsed_like_yaml(root: Path) -> None:
    environ = {
        "OUZEL_TALKER__CHUNK_FRAMES": "[4, 8]",
        "OUZEL_TALKER__CPUS": "null",
        "OUZEL_GATEWAY__HOST": "0x7f",
        "OUZEL_STEP_STATS": "/elsewhere",
        "PATH": "/bin",
    }
    config = load_config(deploy_profile="small", environ=environ, root=root).config
    assert (config.talker.chunk_frames, config.talker.cpus, config.gateway.host) == ((4, 8), None, "0x7f")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "OUZEL_TALKER__THREDS",
            "OUZEL_TALKER__THREDS .*unknown setting 'talker.threds'; did you mean 'talker.threads'",
        ),
        ("OUZEL_TALKR__THREADS", "unknown setting 'talkr.threads'; did you mean 'talker.threads'"),
        ("OUZEL_TALKER_THREADS", "two underscores.*; did you mean 'talker.threads'"),
    ],
)
def test_an_unknown_variable_is_an_error(name: str, complaint: str, root: Path) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_config(deploy_profile="small", environ={name: "1"}, root=root)


def test_an_unknown_flag_is_an_error(root: Path) -> None:
    with pytest.raises(ConfigError, match="flag: unknown setting 'gateway.prot'; did you mean 'gateway.port'"):
        load_config(deploy_profile="small", flags={"gateway.prot": 1}, environ={}, root=root)


def test_without_a_choice_the_edge_profile_is_loaded_from_the_package() -> None:
    effective = load_config(["qwen3_tts"], environ={})
    assert effective.config.talker.chunk_frames == (2, 4, 8, 16, 25)
    assert (effective.config.talker.max_num_seqs, effective.config.code2wav.max_streams) == (4, 1)
    assert (effective.config.talker.threads, effective.config.code2wav.threads) == (1, 1)
    assert effective.config.orchestrator.placement == "side_by_side"
    assert effective.sources["talker.max_num_seqs"].startswith("deploy/edge/qwen3_tts.yaml:")


def test_the_endpoints_key_is_no_setting(root: Path) -> None:
    effective = load_config(deploy_profile="small", environ={"OUZEL_LLM_API_KEY": "secret"}, root=root)
    assert "secret" not in repr(effective)
