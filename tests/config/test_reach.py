"""Every setting that is accepted is read by somebody: one that nobody serves would be a promise."""

from __future__ import annotations

import ast
from pathlib import Path

import ouzel
from ouzel.config.settings import SECTIONS, SETTINGS

SOURCE = Path(ouzel.__file__).parent
#: where settings are declared and turned into values, which is no use of them
DECLARED = {SOURCE / "config/schema.py", SOURCE / "config/settings.py"}


def names_read() -> set[str]:
    """Every attribute that is read anywhere, and every dotted setting that is looked up by its name."""
    found = set()
    for path in set(SOURCE.rglob("*.py")) - DECLARED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and node.value in SETTINGS:
                found.add(str(node.value).partition(".")[2])
    return found


def test_every_setting_is_read_outside_the_schema() -> None:
    read = names_read()
    assert set(SECTIONS) <= read
    assert not [key for key in SETTINGS if key.partition(".")[2] not in read]


def test_what_was_never_served_is_no_setting() -> None:
    assert not {"talker.compile", "code2wav.compile", "code2wav.dtype"} & SETTINGS.keys()
