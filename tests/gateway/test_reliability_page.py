from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/reliability.md").read_text().partition("## At the wire")[2]


def test_every_test_that_the_section_names_is_there() -> None:
    named = re.findall(r"`([a-z0-9_/]+\.py)(?:::(\w+))?", SECTION)
    assert len(named) > 30
    for file, test in named:
        path = ROOT / file if file.startswith("benchmarks/") else ROOT / "tests" / file
        assert path.exists(), file
        assert not test or f"def {test}(" in path.read_text(), f"{file}::{test}"
