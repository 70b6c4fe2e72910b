from __future__ import annotations

import json
import shutil
import sys
import types
import wave
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from numpy.typing import NDArray
from typer.testing import CliRunner

from ouzel import __version__
from ouzel.audio.wav import HEADER_BYTES, WavWriter
from ouzel.cli import app
from ouzel.engines.talker import TalkerCore
from ouzel.quantization.weight_path import PATHS
from tiny_cores import SEEDS

TEXT = "Hello there, the World!"


def ouzel(*arguments: object, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def say(voice: Path, *arguments: object, stdin: bytes = b"", stages: bool = False) -> Result:
    where = [] if stages else ["--in-process"]
    return ouzel("say", "--voice", voice, "--threads", 1, "--seed", SEEDS[0], *where, *arguments, stdin=stdin)


def one_line(result: Result) -> str:
    (line,) = result.stderr.splitlines()
    assert isinstance(result.exception, SystemExit)
    return line


def frames_in(path: Path) -> float:
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24000)
        assert path.stat().st_size == HEADER_BYTES + 2 * file.getnframes()
        return file.getnframes() / 1920


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version(arguments: list[str]) -> None:
    result = ouzel(*arguments)
    assert (result.exit_code, result.output.strip()) == (0, __version__)


def test_a_sentence_becomes_a_file(tiny_voice: Path, tmp_path: Path) -> None:
    result = say(tiny_voice, TEXT, "-o", tmp_path / "out.wav")
    assert result.exit_code == 0, result.output
    assert frames_in(tmp_path / "out.wav") > 20
    assert "first audio" in result.stdout
    assert "real-time factor" in result.stdout


def test_through_stages_it_sounds_as_without(tiny_voice: Path, tmp_path: Path) -> None:
    through, without = tmp_path / "through.wav", tmp_path / "without.wav"
    say(tiny_voice, TEXT, "-o", without)
    result = say(tiny_voice, TEXT, "-o", through, "--step-stats", "--timeline", stages=True)
    assert result.exit_code == 0, result.output
    assert np.abs(samples_of(through) - samples_of(without)).max() <= 1
    for word in ("start process", "load talker", "the schedule tolerates", "of 80 ms", "hop", "dispatch"):
        assert word in result.stdout


def test_what_the_stages_refuse_leaves_no_file(tiny_voice: Path, tmp_path: Path) -> None:
    result = say(tiny_voice, TEXT, "-o", tmp_path / "out.wav", "--speaker", "rian", stages=True)
    assert result.exit_code == 2 and "did you mean 'ryan'?" in one_line(result)
    assert list(tmp_path.iterdir()) == []


def samples_of(path: Path) -> NDArray[np.int32]:
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.int32)


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_text_from_standard_input_sounds_as_from_an_argument(
    tiny_voice: Path, tmp_path: Path, arguments: list[str]
) -> None:
    say(tiny_voice, TEXT, "-o", tmp_path / "argument.wav")
    result = say(tiny_voice, *arguments, "-o", tmp_path / "stdin.wav", stdin=TEXT.encode())
    assert result.exit_code == 0, result.output
    assert (tmp_path / "stdin.wav").read_bytes() == (tmp_path / "argument.wav").read_bytes()


def test_the_file_grows_while_the_speech_is_made(
    tiny_voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, sizes = tmp_path / "out.wav", []
    step = TalkerCore.step

    def watched(self: TalkerCore) -> object:
        sizes.append(out.stat().st_size)
        return step(self)

    monkeypatch.setattr(TalkerCore, "step", watched)
    say(tiny_voice, TEXT, "-o", out)
    assert sizes[:3] == [HEADER_BYTES, HEADER_BYTES, HEADER_BYTES + 2 * 2 * 1920]
    assert sizes[-1] < out.stat().st_size


@pytest.mark.parametrize("layout", ["--streaming-layout", "--no-streaming-layout"])
def test_wishes_reach_the_voice(tiny_voice: Path, tmp_path: Path, layout: str) -> None:
    wishes = ["--speaker", "eric", "--language", "Chinese", "--temperature", "0.5", layout]
    assert say(tiny_voice, TEXT, "-o", tmp_path / "plain.wav").exit_code == 0
    result = say(tiny_voice, TEXT, "-o", tmp_path / "wished.wav", *wishes)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "plain.wav").read_bytes() != (tmp_path / "wished.wav").read_bytes()


def test_the_tables_are_shown_on_demand(tiny_voice: Path, tmp_path: Path) -> None:
    result = say(tiny_voice, TEXT, "-o", tmp_path / "out.wav", "--step-stats", "--timeline")
    for word in ("load talker", "warm up codec", "of 80 ms", "predictor", "codec", "other"):
        assert word in result.stdout
    assert "of 80 ms" not in say(tiny_voice, TEXT, "-o", tmp_path / "out.wav").stdout


def test_a_cut_off_text_is_told(tiny_voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUZEL_LIMITS__FRAME_LIMIT_EXTRA_S", "0")
    result = say(tiny_voice, "hello", "-o", tmp_path / "out.wav")
    assert result.exit_code == 0
    assert "length" in result.stdout
    assert result.stderr.splitlines() == ["the frame limit was reached: the end may be missing"]


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "message"),
    [
        ([""], b"", 2, "a text to speak is needed"),
        (["   "], b"", 2, "a text to speak is needed"),
        (["🙂"], b"", 2, "can be said"),
        ([], b"a\xffb", 2, "not UTF-8: byte 0xFF at offset 1"),
        (["a" * 4097], b"", 2, "4097 letters are more than the 4096"),
        ([], b"a" * 5000, 2, "more than the 4096"),
        ([], b"a" * 100_000, 2, "more than 4096"),
        (["hello", "--language", "englisch"], b"", 2, "did you mean 'english'?"),
        (["hello", "--speaker", "rian"], b"", 2, "did you mean 'ryan'?"),
        (["hello", "--temperature", "0"], b"", 2, "temperature is 0.0, expected above 0"),
        (["hello", "--voice", "nobody"], b"", 2, "voice 'nobody' is neither"),
        (["hello", "--set", "talker.thread=1"], b"", 6, "did you mean 'talker.threads'?"),
        (["hello", "--set", "limits.max_text_letters=4"], b"", 2, "5 letters are more than the 4"),
        (["hello", "--set", "talker"], b"", 2, "expected NAME=VALUE"),
        (["hello", "--deploy-profile", "egde"], b"", 6, "did you mean 'edge'?"),
    ],
)
def test_bad_input_is_one_line_an_exit_code_and_no_file(
    tiny_voice: Path, tmp_path: Path, arguments: list[str], stdin: bytes, code: int, message: str
) -> None:
    result = say(tiny_voice, "-o", tmp_path / "out.wav", *arguments, stdin=stdin)
    assert result.exit_code == code
    assert message in one_line(result)
    assert not (tmp_path / "out.wav").exists()


def test_somewhere_to_put_the_sound_is_needed(tiny_voice: Path) -> None:
    assert "-o FILE, --play" in one_line(say(tiny_voice, TEXT))


@pytest.mark.parametrize("target", ["/dev/full", "missing/out.wav"])
def test_an_output_that_cannot_be_written(tiny_voice: Path, tmp_path: Path, target: str) -> None:
    result = say(tiny_voice, TEXT, "-o", tmp_path / target)
    assert result.exit_code == 7
    assert "cannot be written" in one_line(result)


@pytest.mark.parametrize("file", ["model.safetensors", "speech_tokenizer/model.safetensors"])
@pytest.mark.parametrize("left", [None, 1000])
def test_a_missing_or_torn_checkpoint_file_is_named(
    tiny_voice: Path, tmp_path: Path, file: str, left: int | None
) -> None:
    voice = shutil.copytree(tiny_voice, tmp_path / "voice")
    if left is None:
        (voice / file).unlink()
    else:
        (voice / file).write_bytes((voice / file).read_bytes()[:left])
    result = say(voice, TEXT, "-o", tmp_path / "out.wav")
    assert result.exit_code == 5
    assert f"{voice / file} is {'torn' if left else 'missing'}" in one_line(result)


def test_an_interrupt_leaves_what_was_made(tiny_voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = WavWriter.write

    def interrupted(self: WavWriter, samples: NDArray[np.floating]) -> None:
        if self.seconds > 0:
            raise KeyboardInterrupt
        write(self, samples)

    monkeypatch.setattr(WavWriter, "write", interrupted)
    result = say(tiny_voice, TEXT, "-o", tmp_path / "out.wav")
    assert result.exit_code == 130
    assert frames_in(tmp_path / "out.wav") == 2
    assert "0.16 s of speech, interrupted" in result.stdout


class Loudspeaker:
    """Stands in for sounddevice.OutputStream."""

    heard = 0

    def __init__(self, samplerate: int, channels: int, dtype: str) -> None:
        assert (samplerate, channels, dtype) == (24000, 1, "float32")

    def __enter__(self) -> Loudspeaker:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def write(self, samples: NDArray[np.float32]) -> None:
        assert samples.ndim == 2
        Loudspeaker.heard += len(samples)


def test_it_plays_what_it_writes(tiny_voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = types.SimpleNamespace(OutputStream=Loudspeaker, PortAudioError=RuntimeError)
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    assert say(tiny_voice, TEXT, "--play", "-o", tmp_path / "out.wav").exit_code == 0
    assert Loudspeaker.heard == 1920 * frames_in(tmp_path / "out.wav")


def test_playing_without_a_device_says_why(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_device(*_: object, **__: object) -> None:
        raise RuntimeError("Error querying device -1")

    device = types.SimpleNamespace(OutputStream=no_device, PortAudioError=RuntimeError)
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    result = say(tiny_voice, TEXT, "--play")
    assert result.exit_code == 7
    assert "no sound device can be played on: Error querying device -1" in one_line(result)


def test_playing_without_the_extra_says_what_to_install(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert "pip install 'ouzel[client]'" in one_line(say(tiny_voice, TEXT, "--play"))


def test_the_settings_are_shown_with_their_sources() -> None:
    result = ouzel("config", "show", "--set", "talker.threads=3")
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("talker.threads "))
    assert line.split() == ["talker.threads", "3", "flag"]
    assert "deploy/edge/qwen3_tts.yaml:" in result.stdout


def test_the_carried_voices_are_listed(tiny_voice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ouzel.voices.carried_voices", lambda: {"tiny": tiny_voice})
    assert "tiny  speakers: eric, ryan  languages: chinese, english" in ouzel("voices").stdout


def test_the_pulled_models_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ouzel("models").stdout == ""
    folder = tmp_path / "ouzel/models/tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    assert ouzel("models").stdout == f"tiny  llama  0 MB  {folder}\n"
    assert "tiny is in" not in (pulled := ouzel("pull", "smollm")).stdout
    assert pulled.exit_code == 2 and "did you mean 'smollm2'?" in one_line(pulled)


@pytest.mark.parametrize("command", [("serve",), ("config", "show")])
def test_an_unknown_model_is_one_line(command: tuple[str, ...]) -> None:
    result = ouzel(*command, "--llm", "/no/such/folder")
    assert result.exit_code == 2 and "is neither pulled, nor a folder" in one_line(result)


def test_a_checkpoint_for_measuring_is_made(tmp_path: Path) -> None:
    assert "Usage: ouzel make-checkpoint" in ouzel("make-checkpoint", "--help").stdout
    made = ouzel("make-checkpoint", tmp_path / "spark", "--tiny", "--layers", 4, "--vocabulary", 512)
    assert made.exit_code == 0, made.output
    assert '"model_type": "spark2_5"' in (tmp_path / "spark/config.json").read_text()
    again = ouzel("make-checkpoint", tmp_path / "spark", "--tiny")
    assert again.exit_code != 0 and "spark" in one_line(again)


def test_the_weight_path_is_shown_with_its_reason() -> None:
    said = ouzel("weight-path", "--priority", "fidelity").stdout
    assert [line.split("  ")[0] for line in said.splitlines()][:4] == ["path", "kernel", "layout", "runs in vllm"]
    facts = json.loads(ouzel("weight-path", "--json", "--priority", "fidelity").stdout)
    assert facts["path"] in PATHS and facts["why"] in said


def test_a_weight_path_that_there_is_none_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUZEL_WEIGHT_PATH", "w2")
    result = ouzel("weight-path")
    assert result.exit_code == 6
    assert "OUZEL_WEIGHT_PATH is 'w2'; expected one of w4a8, w4a16" in one_line(result)
