"""`ouzel-client`: speak a text through a server, or ask it something, into the room or into a file."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from ouzel_client.errors import ClientError, TextError
from ouzel_client.http import speak_over_http
from ouzel_client.playback import device_rate, list_devices
from ouzel_client.report import Report
from ouzel_client.session import Answered, Audio, Done, Event, Timing, Writing, connect
from ouzel_client.sink import Sink
from ouzel_client.text_source import text_pieces

__all__ = ["command", "main"]

_TRY_AGAIN = 4  # the exit code of what may work later
_RETRY_S = 0.5
_URL = "http://127.0.0.1:8080"
#: suffix of a file → format that is asked for
_FORMATS = {
    ".wav": "pcm", ".pcm": "pcm", ".raw": "pcm", ".mp3": "mp3", ".opus": "opus", ".ogg": "opus", ".aac": "aac",
    ".flac": "flac",
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; answers its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.list_devices:
            print("\n".join(list_devices()))
            return 0
        return asyncio.run(_speak_when_it_can(options))
    except ClientError as error:
        print(f"ouzel-client: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def command() -> None:
    """The console script."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ouzel-client", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    speak = commands.add_parser("speak", help="speak a text, or what comes on standard input while it comes")
    speak.add_argument("text", nargs="?", default="-", help="the text; - or none for standard input")
    speak.add_argument("--http", action="store_true", help="use POST /v1/audio/speech, which other servers have too")
    ask = commands.add_parser("ask", help="ask the language model: its answer is printed and spoken while it comes")
    ask.add_argument("text", nargs="?", default="-", metavar="question", help="- or none for standard input")
    ask.add_argument("--system", help="what the model is told before the question")
    ask.add_argument("--temperature", type=float, help="0 for the likeliest answer, the same every time")
    ask.add_argument("--max-tokens", type=int, help="the answer's longest; without, as long as it likes")
    for one in (speak, ask):
        _add_speech(one)
    return parser


def _add_speech(command: argparse.ArgumentParser) -> None:
    """What goes for whatever is spoken."""
    command.add_argument("--url", default=os.environ.get("OUZEL_URL", _URL), help="the server (OUZEL_URL; %(default)s)")
    command.add_argument("--voice", help="a speaker of the server; its default one without")
    command.add_argument("--language")
    command.add_argument("--seed", type=int, help="the same seed and text give the same speech")
    command.add_argument("--speed", type=float, help="tempo from 0.25 to 4")
    command.add_argument("--save", metavar="FILE", help=f"save instead of playing ({', '.join(_FORMATS)})")
    command.add_argument("--play", action="store_true", help="play also where it is saved")
    command.add_argument("--device", help="sound device: its number or a part of its name")
    command.add_argument("--list-devices", action="store_true", help="list the sound devices and end")
    command.add_argument("--timing", action="store_true", help="say where the milliseconds of each chunk went")
    command.add_argument(
        "--wait", type=float, default=0.0, metavar="S", help="keep trying for so long while nobody answers, or it loads"
    )


async def _speak_when_it_can(options: argparse.Namespace) -> int:
    give_up = time.monotonic() + options.wait
    while True:
        try:
            return await _speak(options)
        except ClientError as error:
            # With text from a pipe there is no second try: some of it may be gone.
            if error.exit_code != _TRY_AGAIN or options.text == "-" or time.monotonic() > give_up:
                raise
        await asyncio.sleep(_RETRY_S)


async def _speak(options: argparse.Namespace) -> int:
    suffix = Path(options.save).suffix.lower() if options.save else ".wav"
    if suffix not in _FORMATS:
        raise TextError(f"--save {options.save}: no format is known by {suffix!r}; valid are {', '.join(_FORMATS)}")
    playing = options.play or not options.save
    if playing and _FORMATS[suffix] != "pcm":
        raise TextError(f"--play needs samples: save as .wav, .pcm or .raw, not {suffix}")
    device = int(options.device) if options.device and options.device.isdecimal() else options.device
    rate = device_rate(device) if playing else None
    began = time.monotonic()
    report = Report()
    async with _events(options, _FORMATS[suffix], rate) as events:
        sink = Sink(options.save, suffix, playing=playing, device=device)
        try:
            async for event in events:
                if isinstance(event, Audio):
                    report.heard(1000 * (time.monotonic() - began))
                _tell(event, report, options.timing)
                await sink.take(event)
            await sink.finish()
        finally:
            sink.close()
    if options.timing:
        print("\n".join(report.lines()), file=sys.stderr)
    return 0


def _tell(event: Event, report: Report, timing: bool) -> None:
    match event:
        case Timing(fields):
            line = report.add(fields)
            if timing:
                print(line, file=sys.stderr)
        case Writing(text):
            print(text, end="", flush=True)
        case Answered():
            print(flush=True)
        case Done("length"):
            print("ouzel-client: the speech was cut off at its frame limit", file=sys.stderr)


@asynccontextmanager
async def _events(
    options: argparse.Namespace, format_name: str, rate: int | None
) -> AsyncIterator[AsyncGenerator[Event, None]]:
    key = os.environ.get("OUZEL_API_KEY")
    pieces = text_pieces(lambda size: os.read(sys.stdin.fileno(), size))
    shape = {"speed": options.speed, "seed": options.seed, "language": options.language, "sample_rate": rate}
    if options.command == "speak" and options.http:
        text = "".join([piece async for piece in pieces]) if options.text == "-" else options.text
        voice = options.voice or "alloy"
        async with aclosing(speak_over_http(options.url, text, api_key=key, voice=voice, **shape)) as events:
            yield events
        return
    config = {"voice": options.voice, "format": format_name, "timing": options.timing, **shape}
    asking = options.command == "ask"
    if asking:
        wishes = {"system": options.system, "temperature": options.temperature, "max_tokens": options.max_tokens}
        config |= {"respond": True, **wishes}
    async with connect(options.url, api_key=key, **config) as session:
        text = pieces if options.text == "-" else options.text
        async with aclosing(session.ask(text) if asking else session.speak(text)) as events:
            yield events


if __name__ == "__main__":
    command()
