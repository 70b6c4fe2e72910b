"""Who may know whom: the house's rules of import, checked on every file of server/ and clients/."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

#: imports run down this list, never up
FLOORS = (
    {"cli", "in_process", "tools"},
    {"gateway"},
    {"orchestrator"},
    {"engines"},
    {"stages"},
    {"models"},
    {"quantization", "transfer", "scheduling"},
    {"config", "stats", "audio", "text", "voices", "errors"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
NO_TORCH = {"gateway", "orchestrator", "config", "scheduling", "transfer", "stats", "audio", "text", "voices", "errors"}
PURE = {"models", "quantization", "scheduling"}
MACHINERY = {"asyncio", "concurrent", "multiprocessing", "selectors", "socket", "subprocess", "threading"}


class Import(NamedTuple):
    importer: str
    imported: str


def modules() -> dict[str, Path]:
    """Every module of ours, by its dotted name."""
    found = {}
    for source in (ROOT / "server", ROOT / "clients"):
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(name: str, source: str) -> Iterator[Import]:
    """Every import in a module, those inside functions and for type checking too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            full = [f"{base}.{alias.name}" for alias in node.names]
            yield from (Import(name, one if one in MODULES else base) for one in full)


# `ouzel` itself is the front door: it names what is inside and loads it on demand.
IMPORTS = sorted({one for name, path in MODULES.items() if name != "ouzel" for one in imports(name, path.read_text())})


def room(module: str) -> str:
    return module.split(".")[1] if module.startswith("ouzel.") else ""


def top(module: str) -> str:
    return module.split(".")[0]


def upward(found: list[Import]) -> list[Import]:
    ours = [one for one in found if room(one.importer) and room(one.imported)]
    return [one for one in ours if FLOOR[room(one.imported)] < FLOOR[room(one.importer)]]


def cycle(found: list[Import]) -> list[str]:
    graph: dict[str, set[str]] = {}
    for one in found:
        if one.imported in MODULES and one.imported != one.importer:
            graph.setdefault(one.importer, set()).add(one.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_room_has_a_floor() -> None:
    assert {room(name) for name in MODULES} - {""} <= FLOOR.keys()


def test_imports_run_down() -> None:
    assert upward(IMPORTS) == []


def test_an_import_that_runs_up_is_seen() -> None:
    up = Import("ouzel.models.x", "ouzel.engines.y")
    assert upward([up, Import("ouzel.engines.y", "ouzel.models.x"), Import("ouzel.text.a", "ouzel.errors")]) == [up]


def test_no_two_files_import_each_other() -> None:
    assert cycle(IMPORTS) == []


def test_a_cycle_is_seen() -> None:
    there, back = "ouzel.text.limits", "ouzel.errors"
    assert set(cycle([Import(there, back), Import(back, there)])) == {there, back}


def test_imports_are_absolute() -> None:
    assert [one for one in IMPORTS if one.imported.startswith(".")] == []


def test_vllm_is_known_to_its_engine_and_the_tools_alone() -> None:
    knowing = {one.importer for one in IMPORTS if top(one.imported) == "vllm"}
    assert [name for name in knowing if not name.startswith(("ouzel.engines.llm", "ouzel.tools"))] == []


def test_pure_rooms_use_no_process_no_socket_and_no_asyncio() -> None:
    assert [one for one in IMPORTS if room(one.importer) in PURE and top(one.imported) in MACHINERY] == []


def test_stats_imports_nothing_of_ours() -> None:
    leaving = [one for one in IMPORTS if room(one.importer) == "stats" and room(one.imported) not in ("", "stats")]
    assert leaving == []


def test_server_and_client_know_nothing_of_each_other() -> None:
    assert [one for one in IMPORTS if {top(one.importer), top(one.imported)} == {"ouzel", "ouzel_client"}] == []


@pytest.mark.parametrize("name", sorted({room(name) for name in MODULES} & NO_TORCH | {"ouzel_client"}))
def test_a_room_without_torch_loads_none_through_others(name: str) -> None:
    inside = [module for module in MODULES if name in (room(module), top(module))]
    code = f"import sys, {', '.join(sorted(inside))}\nprint(sys.modules.keys() & {{'torch', 'vllm'}} or 'neither')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert loaded.stdout.strip() == "neither"
