from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
ENGINE = HERE.parent / "engines/llm"
sys.path[:0] = [str(HERE), str(HERE / "fidelity"), str(ENGINE), str(ENGINE / "spark")]
