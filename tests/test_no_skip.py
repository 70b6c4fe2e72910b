from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = Path(__file__).with_name("conftest.py").read_text()


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PATH", "")
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers = node: needs node")
    return pytester


MARKED = "import pytest\n@pytest.mark.node\ndef test_marked(): pass\n"
KNOWN = "import pytest\n@pytest.mark.xfail\ndef test_known(): assert False\n"
MODULE = "import pytest\npytest.importorskip('no_such_module')\n"


@pytest.mark.parametrize("source", [MARKED, MODULE])
def test_a_skip_fails_the_run_only_where_nothing_may_be_skipped(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    suite.makepyfile(source, test_passing="def test_passing(): pass")
    monkeypatch.setenv("OUZEL_NO_SKIP", "1")
    assert suite.runpytest_inprocess().ret == pytest.ExitCode.TESTS_FAILED
    monkeypatch.delenv("OUZEL_NO_SKIP")
    assert suite.runpytest_inprocess().ret == pytest.ExitCode.OK


def test_a_marked_test_says_which_program_it_lacks(suite: pytest.Pytester) -> None:
    suite.makepyfile(MARKED)
    suite.runpytest_inprocess("-rs").stdout.fnmatch_lines(["*node is not installed*"])


def test_a_known_failure_is_no_skip(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    suite.makepyfile(KNOWN)
    monkeypatch.setenv("OUZEL_NO_SKIP", "1")
    assert suite.runpytest_inprocess().ret == pytest.ExitCode.OK
