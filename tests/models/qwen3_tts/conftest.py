"""The recipes in tests/oracle are shared with scripts that run in another environment; tests import them from there."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "oracle"))
