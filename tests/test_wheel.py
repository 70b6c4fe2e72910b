from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = shutil.ignore_patterns("__pycache__", "*.egg-info")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy so that nothing of an earlier build slips in."""
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    for name in ("server", "clients", "deploy"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=GENERATED)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tree / "dist"), str(tree)]
    done = subprocess.run(build, capture_output=True, text=True, check=False, timeout=55)
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next((tree / "dist").glob("ouzel-*.whl")))


def test_the_wheel_holds_every_file_of_ours(wheel: zipfile.ZipFile) -> None:
    expected = {
        str(path.relative_to(source))
        for source in (ROOT / "server", ROOT / "clients")
        for path in source.rglob("*")
        if path.is_file() and not {"__pycache__", "ouzel.egg-info"} & set(path.parts)
    }
    expected |= {f"ouzel/{path.relative_to(ROOT)}" for path in (ROOT / "deploy").rglob("*") if path.is_file()}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected


def test_the_wheel_installs_two_packages_and_no_server(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ouzel", "ouzel_client"}


def test_what_the_wheel_says_of_itself(wheel: zipfile.ZipFile) -> None:
    from ouzel import __version__

    name = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    metadata = message_from_bytes(wheel.read(name))
    assert (metadata["Name"], metadata["Version"]) == ("ouzel", __version__)
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    core = [line.split(";")[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not [line for line in core if line.startswith(("vllm", "transformers", "torchaudio", "torchvision"))]
