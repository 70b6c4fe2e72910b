from __future__ import annotations

import subprocess
import sys

#: never needed to speak
HEAVY = {"diffusers", "librosa", "torchaudio", "torchvision", "transformers", "vllm"}


def loaded_after(statements: str) -> set[str]:
    """The top-level modules that a new interpreter has loaded after these statements."""
    code = f"{statements}\nimport sys\nprint(*(name for name in sys.modules if '.' not in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_ouzel_loads_next_to_nothing() -> None:
    assert not loaded_after("import ouzel; ouzel.RequestError") & (HEAVY | {"torch", "numpy", "fastapi", "pydantic"})
