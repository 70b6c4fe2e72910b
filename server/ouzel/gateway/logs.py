"""One line an event: for the journal with its priority, for people with a time."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

__all__ = ["configure_logging"]

_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class _JournalFormatter(logging.Formatter):
    """The journal has times of its own, and reads a priority in front of each line."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def _is_news(record: logging.LogRecord) -> bool:
    """uvicorn takes a refused handshake and a body that is broken off for our mistakes; both are meant, and logged."""
    return not record.getMessage().startswith("ASGI callable returned without completing")


def configure_logging(level: str = "INFO", environ: Mapping[str, str] = os.environ) -> None:
    """Log to standard error, in the form of whoever reads it."""
    handler = logging.StreamHandler(sys.stderr)
    if "JOURNAL_STREAM" in environ:
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    logging.basicConfig(level=level, handlers=[handler], force=True)
