from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

from ouzel import errors
from ouzel.errors import OuzelError, RequestError, TextTooLongError

_ROW = re.compile(r"(\w+Error) +(\d{3}) +(\d{4}) +(\d)\s")


def tree(kind: type[OuzelError]) -> list[type[OuzelError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in tree(child))]


def test_no_room_has_errors_of_its_own() -> None:
    source = Path(errors.__file__).parent
    for path in sorted({*source.rglob("*.py")} - {Path(errors.__file__)}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            bases = {base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)}
            assert not bases & set(errors.__all__), f"{path}:{node.lineno}"


def test_the_tree_drawn_in_the_docstring_is_the_tree() -> None:
    drawn = [(name, int(http), int(ws), int(code)) for name, http, ws, code in _ROW.findall(errors.__doc__ or "")]
    real = [(kind.__name__, kind.status, kind.ws_close, kind.exit_code) for kind in tree(OuzelError)[1:]]
    assert drawn == real


def test_every_error_is_public() -> None:
    assert sorted(kind.__name__ for kind in tree(OuzelError)) == errors.__all__


def test_a_too_long_text_is_a_request_error() -> None:
    assert issubclass(TextTooLongError, RequestError)


@pytest.mark.parametrize("kind", tree(OuzelError))
def test_message_and_param_survive_the_way_between_processes(kind: type[OuzelError]) -> None:
    error = pickle.loads(pickle.dumps(kind("voice 'x' is unknown", param="voice")))
    assert (type(error), str(error), error.param) == (kind, "voice 'x' is unknown", "voice")
    assert kind("no field").param is None
