"""The command `ouzel`. What a command needs is imported inside it, so that `ouzel --help` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperGroup

from ouzel import __version__
from ouzel.errors import OuzelError, RequestError, TextTooLongError
from ouzel.tools.weight_commands import add_weight_commands

if TYPE_CHECKING:
    from ouzel.config import DeployConfig
    from ouzel.in_process import Utterance
    from ouzel.orchestrator import SyncSpeech
    from ouzel.orchestrator.request import Wishes
    from ouzel.orchestrator.voice import VoiceFacts
    from ouzel.stats.snapshot import Snapshot

__all__ = ["app"]

INTERRUPTED = 130  # as a shell counts Ctrl-C


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
add_weight_commands(app)

Voice = Annotated[str | None, typer.Option("--voice", help="A carried voice or a checkpoint folder.")]
Profile = Annotated[str | None, typer.Option("--deploy-profile", help="A named profile; edge by default.")]
ConfigFile = Annotated[Path | None, typer.Option("--deploy-config", help="A deploy file instead of a profile.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One setting, as in talker.threads=2.")
]
Llm = Annotated[str | None, typer.Option("--llm", help="A pulled model, a checkpoint folder or a hub id.")]
LlmUrl = Annotated[str | None, typer.Option("--llm-url", help="An OpenAI-compatible endpoint, http://.../v1.")]
NoLlm = Annotated[bool, typer.Option("--no-llm", help="Speech only.")]


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


@app.command("pull")
def pull_model(name: Annotated[str, typer.Argument(help="smollm2.")] = "smollm2") -> None:
    """Bring a language model here, once."""
    from ouzel.tools.model_store import model_store
    from ouzel.tools.pull import pull

    pull(name, model_store(), lambda line: typer.echo(line, err=True))


@app.command("models")
def list_models() -> None:
    """List the language models that were pulled."""
    from ouzel.tools.model_store import pulled_models, read_model_config

    for name, folder in pulled_models().items():
        megabytes = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e6
        typer.echo(f"{name}  {read_model_config(folder)['model_type']}  {megabytes:.0f} MB  {folder}")


@app.command(
    "make-checkpoint",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def make_checkpoint(context: typer.Context) -> None:
    """Make a Spark-X2.5 checkpoint of random weights, for measuring (--help for more)."""
    # Its options need torch to be loaded, so it reads them itself.
    from ouzel.tools.make_checkpoint import main

    _run_own(main, context)


@app.command(
    "fidelity",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def measure_fidelity(context: typer.Context) -> None:
    """Measure how faithful quantized builds of a model are (--help for more)."""
    from ouzel.tools.fidelity.command import main

    _run_own(main, context)


@app.command(
    "voice-fidelity",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def measure_voice_fidelity(context: typer.Context) -> None:
    """Measure what four bits do to a voice's distributions (--help for more)."""
    from ouzel.tools.fidelity.voice import main

    _run_own(main, context)


@app.command("weight-path")
def show_weight_path(
    priority: Annotated[Literal["speed", "fidelity"], typer.Option(help="What matters more.")] = "speed",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show which four-bit weights suit this device, and why."""
    import json

    from ouzel.config import probe_device
    from ouzel.quantization.weight_path import choose

    facts = choose(probe_device(), priority).facts()
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    for name, value in facts.items():
        words = ("no", "yes")[value] if isinstance(value, bool) else value
        typer.echo(f"{name.replace('_', ' '):<14}{words}")


def _run_own(main: Callable[..., None], context: typer.Context) -> None:
    own = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False)
    own.command()(main)
    own(context.args, prog_name=f"ouzel {context.info_name}")


@config_app.command("show")
def show_config(
    voice: Voice = None,
    llm: Llm = None,
    llm_url: LlmUrl = None,
    no_llm: NoLlm = False,
    profile: Profile = None,
    file: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Show every effective setting of a server and where it came from."""
    from ouzel.config import render_config
    from ouzel.tools.deployment import Asked, LanguageWish, load_serving

    asked, wish = Asked(profile, file, settings or ()), LanguageWish(llm, llm_url, no_llm)
    typer.echo(render_config(load_serving(_voice(voice), asked, wish)))


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
    from ouzel.tools.delivery import Delivery, open_sinks
    from ouzel.tools.deployment import Asked, load_deployment

    if output is None and not play:
        raise RequestError("where to? give -o FILE, --play, or both", param="output")
    facts = _voice(voice)
    config = load_deployment(facts, Asked(profile, file, settings or ())).config
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
            sinks = [sounding.enter_context(sink) for sink in open_sinks(output, play, engine.sample_rate)]
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
    llm: Llm = None,
    llm_url: LlmUrl = None,
    no_llm: NoLlm = False,
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
    """Serve speech, and text where there is a language model, over HTTP and WebSocket."""
    import asyncio

    from ouzel.gateway.api_key import find_api_key
    from ouzel.gateway.logs import configure_logging
    from ouzel.gateway.omni import OmniLanguage, OmniSpeaker
    from ouzel.gateway.serve import bind
    from ouzel.gateway.serve import serve as run_server
    from ouzel.gateway.systemd import Notifier, passed_socket
    from ouzel.orchestrator import AsyncOmni
    from ouzel.tools.deployment import Asked, LanguageWish, load_serving

    configure_logging(log_level)
    own = {"gateway.host": host, "gateway.port": port, "gateway.insecure": "true" if insecure else None}
    given = [f"{name}={value}" for name, value in own.items() if value is not None]
    facts = _voice(voice)
    asked = Asked(profile, file, [*(settings or ()), *given])
    config = load_serving(facts, asked, LanguageWish(llm, llm_url, no_llm)).config
    key = find_api_key(str(api_key_file) if api_key_file else None)
    omni = AsyncOmni(voice=facts, config=config, step_stats=step_stats)
    language = None if omni.language is None else OmniLanguage(omni.language)
    # The variables of the service manager are taken before a stage could inherit them.
    notifier, listener = Notifier.from_environ(), passed_socket() or bind(config.gateway, key)
    served = run_server(
        OmniSpeaker(omni), config, listener, key=key, notifier=notifier, page=not headless, language=language
    )
    asyncio.run(served)


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
