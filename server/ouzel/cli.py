"""The command `ouzel`. What a command needs is imported inside it, so that `ouzel --help` answers at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from ouzel import __version__
from ouzel.errors import OutputError, OuzelError, RequestError, TextTooLongError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ouzel.config import DeployConfig, Effective
    from ouzel.in_process import Utterance
    from ouzel.orchestrator import SyncSpeech
    from ouzel.orchestrator.request import Wishes
    from ouzel.orchestrator.voice import VoiceFacts
    from ouzel.stats.snapshot import Snapshot

__all__ = ["app"]

INTERRUPTED = 130  # as a shell counts Ctrl-C

#: Takes the next samples [n] float32.
Sink = Callable[["NDArray[np.float32]"], None]


class Commands(TyperGroup):
    """Every error of ours becomes one line and its exit code, never a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OuzelError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from error


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
config_app = typer.Typer(no_args_is_help=True)
app.add_typer(config_app, name="config", help="Look at the settings of a deployment.")

Voice = Annotated[str | None, typer.Option("--voice", help="A carried voice or a checkpoint folder.")]
Profile = Annotated[str | None, typer.Option("--deploy-profile", help="A named profile; edge by default.")]
ConfigFile = Annotated[Path | None, typer.Option("--deploy-config", help="A deploy file instead of a profile.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One setting, as in talker.threads=2.")
]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def ouzel(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Speak, on this device, while the sound is still being made."""


@app.command("version")
def show_version() -> None:
    """Show the version."""
    typer.echo(__version__)


@app.command("voices")
def list_voices() -> None:
    """List the voices that the package carries."""
    from ouzel.models.qwen3_tts.config import load_config
    from ouzel.voices import carried_voices

    for name, folder in carried_voices().items():
        voice = load_config(folder)
        megabytes = sum(file.stat().st_size for file in folder.rglob("*.safetensors")) / 1e6
        speakers, languages = ", ".join(sorted(voice.speakers)) or "-", ", ".join(voice.spoken_languages)
        typer.echo(f"{name}  speakers: {speakers}  languages: {languages}  {megabytes:.1f} MB")


@config_app.command("show")
def show_config(
    voice: Voice = None, profile: Profile = None, file: ConfigFile = None, settings: Settings = None
) -> None:
    """Show every effective setting and where it came from."""
    from ouzel.config import render_config

    typer.echo(render_config(_deployment(_voice(voice), profile, file, settings)))


@app.command("say")
def say(
    text: Annotated[str | None, typer.Argument(help="What to say; - or nothing reads standard input.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="WAV file, written while it is made.")] = None,
    play: Annotated[bool, typer.Option("--play", help="Play it as it is made.")] = False,
    voice: Voice = None,
    speaker: Annotated[str | None, typer.Option(help="One of the voice's speakers.")] = None,
    language: Annotated[str | None, typer.Option(help="One of the voice's languages, or auto.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=1 << 62, help="The same seed gives the same speech.")] = None,
    temperature: Annotated[float | None, typer.Option(help="How freely codebook 0 is sampled; above 0.")] = None,
    streaming_layout: Annotated[bool, typer.Option(help="Lay the text beside the frames, not before them.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each stage; in process, of both.")] = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="The same engine cores, without processes.")] = False,
    step_stats: Annotated[bool, typer.Option("--step-stats", help="Show how the 80 ms of a frame divide.")] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Show what the start took.")] = False,
    profile: Profile = None,
    file: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Say a text: into a file, through the loudspeaker, or both."""
    from ouzel.orchestrator.request import Wishes
    from ouzel.stages.core import SamplingWishes
    from ouzel.text.limits import check_text

    if output is None and not play:
        raise RequestError("where to? give -o FILE, --play, or both", param="output")
    facts = _voice(voice)
    config = _deployment(facts, profile, file, settings).config
    longest = config.limits.max_text_letters
    words = check_text(_read_stdin(longest) if text in (None, "-") else text, longest=longest, param="text")
    wishes = Wishes(
        language=language,
        speaker=speaker,
        sampling=SamplingWishes(seed=seed, temperature=temperature),
        streaming_layout=streaming_layout,
    )
    with ExitStack() as stack:
        start = _start_in_process if in_process or config.orchestrator.in_process else _start_stages
        engine = stack.enter_context(start(facts, config, threads, step_stats))
        if timeline:
            typer.echo(engine.started())
        delivery = Delivery()
        utterance = stack.enter_context(closing(engine.speak(words, wishes)))
        with ExitStack() as sounding:
            sinks = [sounding.enter_context(sink) for sink in _sinks(output, play, engine.sample_rate)]
            delivery.run(utterance, sinks)
        typer.echo(delivery.summary(engine.sample_rate))
        if step_stats:
            from ouzel.stats.table import attribution_table

            typer.echo(attribution_table(engine.snapshots()))
    if delivery.interrupted:
        raise typer.Exit(INTERRUPTED)
    if delivery.finish == "length":
        typer.echo("the frame limit was reached: the end may be missing", err=True)


class Engine(NamedTuple):
    """What a voice is spoken with, through stages or without them."""

    sample_rate: int
    speak: Callable[[str, Wishes], SyncSpeech | Utterance]
    snapshots: Callable[[], Sequence[Snapshot]]
    #: what the start took, and how fast the device is
    started: Callable[[], str]


@contextmanager
def _start_stages(voice: VoiceFacts, config: DeployConfig, threads: int | None, step_stats: bool) -> Iterator[Engine]:
    from ouzel.orchestrator import Omni
    from ouzel.stats.timeline import render

    if threads is not None:
        talker, code2wav = replace(config.talker, threads=threads), replace(config.code2wav, threads=threads)
        config = replace(config, talker=talker, code2wav=code2wav)
    with Omni(voice=voice, config=config, step_stats=step_stats) as omni:

        def speak(text: str, wishes: Wishes) -> SyncSpeech:
            speech = omni.speak(text, **{field.name: getattr(wishes, field.name) for field in fields(wishes)})
            # What the stages refuse is known before a file is made for it.
            speech.wait()
            return speech

        def started() -> str:
            return f"{render(omni.timeline())}\n{omni.health().pace_line}"

        yield Engine(omni.sample_rate, speak, omni.stats, started)


@contextmanager
def _start_in_process(
    voice: VoiceFacts, config: DeployConfig, threads: int | None, step_stats: bool
) -> Iterator[Engine]:
    from ouzel.stats.timeline import InitTimeline, render

    starting = InitTimeline("say")
    with starting.phase("import torch"):
        from ouzel.in_process import InProcess
    engine = InProcess.load(voice.folder, config, threads=threads, timeline=starting, step_stats=step_stats)
    yield Engine(engine.sample_rate, engine.speak, engine.snapshots, lambda: render(starting.spans))


@app.command("serve")
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; beyond this machine it needs a key.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free one.")] = None,
    voice: Voice = None,
    api_key_file: Annotated[Path | None, typer.Option(help="File with the key that callers must know.")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let everyone in who can reach it, without a key.")
    ] = False,
    headless: Annotated[bool, typer.Option("--headless", help="Without the page for browsers.")] = False,
    step_stats: Annotated[bool, typer.Option("--step-stats", help="Count where the stages' time goes.")] = False,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    profile: Profile = None,
    file: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Serve speech over HTTP and WebSocket."""
    import asyncio

    from ouzel.gateway.api_key import find_api_key
    from ouzel.gateway.logs import configure_logging
    from ouzel.gateway.omni import OmniSpeaker
    from ouzel.gateway.serve import bind
    from ouzel.gateway.serve import serve as run_server
    from ouzel.gateway.systemd import Notifier, passed_socket
    from ouzel.orchestrator import AsyncOmni

    configure_logging(log_level)
    own = {"gateway.host": host, "gateway.port": port, "gateway.insecure": "true" if insecure else None}
    given = [f"{name}={value}" for name, value in own.items() if value is not None]
    facts = _voice(voice)
    config = _deployment(facts, profile, file, [*(settings or ()), *given]).config
    key = find_api_key(str(api_key_file) if api_key_file else None)
    omni = AsyncOmni(voice=facts, config=config, step_stats=step_stats)
    # The variables of the service manager are taken before a stage could inherit them.
    notifier, listener = Notifier.from_environ(), passed_socket() or bind(config.gateway, key)
    asyncio.run(run_server(OmniSpeaker(omni), config, listener, key=key, notifier=notifier, page=not headless))


class Delivery:
    """Hands each piece of sound on as soon as it is made, and follows how fast that goes."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self.interrupted = False
        self._begun = time.perf_counter()
        self._first_s = self._busy_s = 0.0
        self._samples = 0

    def run(self, sounds: SyncSpeech | Utterance, sinks: Sequence[Sink]) -> None:
        asked = self._begun
        try:
            for sound in sounds:
                made = time.perf_counter()
                self._busy_s += made - asked
                if not self._samples:
                    self._first_s = made - self._begun
                for sink in sinks:
                    sink(sound.samples)
                self._samples += len(sound.samples)
                asked = time.perf_counter()
            self.finish = sounds.finish
        except KeyboardInterrupt:
            self.interrupted = True

    def summary(self, sample_rate: int) -> str:
        seconds = self._samples / sample_rate
        factor = f"{self._busy_s / seconds:.3f}" if seconds else "-"
        how = "interrupted" if self.interrupted else self.finish
        first = f"{1000 * self._first_s:.0f} ms"
        return f"first audio {first}, real-time factor {factor}, {seconds:.2f} s of speech, {how}"


def _sinks(output: Path | None, play: bool, sample_rate: int) -> Iterator[AbstractContextManager[Sink]]:
    if output is not None:
        yield _wav_file(output, sample_rate)
    if play:
        yield _loudspeaker(sample_rate)


@contextmanager
def _wav_file(path: Path, sample_rate: int) -> Iterator[Sink]:
    from ouzel.audio.wav import WavWriter

    with WavWriter(path, sample_rate) as writer:
        yield writer.write


@contextmanager
def _loudspeaker(sample_rate: int) -> Iterator[Sink]:
    try:
        import sounddevice
    except ImportError as error:
        raise OutputError("--play needs sounddevice: pip install 'ouzel[client]'", param="play") from error
    except OSError as error:
        raise OutputError(f"--play needs the PortAudio library: {error}", param="play") from error
    try:
        with sounddevice.OutputStream(sample_rate, channels=1, dtype="float32") as stream:
            yield lambda samples: stream.write(samples[:, None])
    except sounddevice.PortAudioError as error:
        raise OutputError(f"no sound device can be played on: {error}", param="play") from error


def _read_stdin(longest: int) -> str:
    from ouzel.text.limits import decode_text

    most = 4 * longest + 3  # bytes, with a byte order mark
    data = sys.stdin.buffer.read(most + 1)
    if len(data) > most:
        raise TextTooLongError(f"text: standard input has more than {longest} letters", param="text")
    return decode_text(data, param="text")


def _voice(name: str | None) -> VoiceFacts:
    from ouzel.orchestrator.voice import VoiceFacts
    from ouzel.voices import DEFAULT_VOICE

    return VoiceFacts.of(name or DEFAULT_VOICE)


def _deployment(voice: VoiceFacts, profile: str | None, file: Path | None, settings: Sequence[str] | None) -> Effective:
    from ouzel.config import load_config

    return load_config(
        ("qwen3_tts",),
        deploy_profile=profile,
        deploy_config=file,
        flags=dict(_parse_setting(setting) for setting in settings or ()),
        derive=voice.derive,
    )


def _parse_setting(setting: str) -> tuple[str, str]:
    name, given, value = setting.partition("=")
    if not given:
        raise RequestError(f"--set {setting!r}: expected NAME=VALUE", param="set")
    return name.strip(), value.strip()
