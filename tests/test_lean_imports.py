from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tiny_cores import SEEDS

#: never needed to speak
HEAVY = {"diffusers", "librosa", "torchaudio", "torchvision", "transformers", "vllm"}


def loaded_after(statements: str) -> set[str]:
    """The top-level modules that a new interpreter has loaded after these statements."""
    code = f"{statements}\nimport sys\nprint(*(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_ouzel_loads_next_to_nothing() -> None:
    assert not loaded_after("import ouzel; ouzel.RequestError") & (HEAVY | {"torch", "numpy", "fastapi", "pydantic"})


def test_help_loads_no_torch() -> None:
    ask = "from typer.testing import CliRunner; from ouzel.cli import app"
    loaded = loaded_after(f"{ask}; assert 'say' in CliRunner().invoke(app, ['--help']).stdout")
    assert not loaded & (HEAVY | {"torch", "numpy", "yaml", "fastapi", "pydantic"})


def test_speaking_loads_nothing_that_it_does_not_need(tiny_voice: Path) -> None:
    code = f"""
from pathlib import Path
from ouzel.config import load_config
from ouzel.in_process import InProcess, Wishes
from ouzel.stages.core import SamplingWishes
wishes = Wishes(sampling=SamplingWishes(seed={SEEDS[0]}), max_frames=3)
voice = InProcess.load(Path({str(tiny_voice)!r}), load_config(("qwen3_tts",)).config, threads=1)
assert sum(sound.frames for sound in voice.speak("hello", wishes)) == 3
"""
    # sympy comes with torch's compiler, which costs a second of the start.
    assert not loaded_after(code) & (HEAVY | {"fastapi", "sympy", "typer", "uvicorn"})
