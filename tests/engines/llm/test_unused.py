from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_broken_package_that_nothing_needs_looks_absent(tmp_path: Path) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from importlib.util import find_spec
from ouzel.engines.llm.unused import hide_unused
assert find_spec("torchvision") is not None
hide_unused()
assert find_spec("torchvision") is None
try:
    import torchvision
except ModuleNotFoundError:
    print("absent")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "absent\n"
