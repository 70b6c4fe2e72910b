"""What is in force and why: the text of `ouzel config show`, and a copy that stands alone."""

from __future__ import annotations

from dataclasses import asdict

import yaml

from ouzel.config.load import Effective
from ouzel.config.settings import SETTINGS

__all__ = ["render_config", "to_yaml"]


def render_config(effective: Effective) -> str:
    """One line for each setting: name, value, source."""
    values = asdict(effective.config)
    rows = []
    for key in SETTINGS:
        section, _, name = key.partition(".")
        rows.append((key, _inline(values[section][name]), effective.sources[key]))
    key_width, value_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{key:{key_width}}  {value:{value_width}}  {source}" for key, value, source in rows)


def to_yaml(effective: Effective) -> str:
    """All settings as one deploy config, without a base: a copy of it means the same wherever it is written."""
    plain = {
        section: {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        for section, settings in asdict(effective.config).items()
    }
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None)


def _inline(value: object) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    return yaml.safe_dump(plain, default_flow_style=True, width=1000).removesuffix("...\n").strip()
