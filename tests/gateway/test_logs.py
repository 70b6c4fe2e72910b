from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ouzel.gateway.logs import configure_logging


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], _ = handlers, root.setLevel(level)


def test_the_journal_gets_a_priority_for_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("DEBUG", {"JOURNAL_STREAM": "8:1"})
    log = logging.getLogger("ouzel.x")
    log.error("one\ntwo")
    log.warning("three")
    log.info("four")
    log.debug("five")
    assert capsys.readouterr().err.splitlines() == [
        "<3>ouzel.x: one",
        "<3>two",
        "<4>ouzel.x: three",
        "<6>ouzel.x: four",
        "<7>ouzel.x: five",
    ]


def test_people_get_a_time_and_only_what_they_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("WARNING", {})
    logging.getLogger("ouzel.x").info("quiet")
    logging.getLogger("ouzel.x").warning("loud")
    said = capsys.readouterr().err
    assert said.startswith("20")
    assert said.endswith(" WARNING ouzel.x: loud\n")


def test_what_we_do_on_purpose_is_no_error_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("INFO", {})
    logging.getLogger("uvicorn.error").error("ASGI callable returned without completing handshake.")
    assert capsys.readouterr().err == ""
