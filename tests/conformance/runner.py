"""Runs every vector file of a folder, whatever its shape, and counts what came of it; it knows no vector by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from tests.conformance.builtin.catalogue import families
from tests.conformance.builtin.frame import Family, Finding, Play, Row, honest, judge as judge_row, judge_rows, load
from tests.conformance.builtin.sabotage import SABOTEURS, is_found_out, misses_streams, options_of, sabotage
from tests.conformance.runtime.driver import World
from tests.conformance.runtime.frame import SCENARIOS, Same, compare, judge, treatments
from tests.conformance.runtime.sabotage import BlockAll, DropAll, PassAll
from tests.conformance.runtime.scenarios import SCENARIO_MODULES

HERE = Path(__file__).parent / "oracle"
_ = SCENARIO_MODULES  # their import has entered them
WORLDS = {"pass all": PassAll, "block all": BlockAll, "drop all": DropAll}


@dataclass(frozen=True)
class Report:
    """What came of one file."""

    file: str
    findings: list[Finding]

    @property
    def red(self) -> bool:
        """Whether something differs."""
        return any(one.kind == "differs" for one in self.findings)

    def of(self, kind: str) -> list[Finding]:
        """Return the findings of one kind."""
        return [one for one in self.findings if one.kind == kind]


def run(folder: Path, saboteur: str = "") -> list[Report]:
    """Return a report of each file of the folder and of those below it."""
    return [run_file(path, saboteur) for path in sorted(folder.rglob("*.json"))]


def by_hand(folder: Path) -> list[Report]:
    """Return a report of the rows made by hand of each family that the folder has a file of."""
    stems = {path.stem for path in folder.rglob("*.json")}
    served = {name: (file, family) for file, (name, family) in families().items() if file in stems}
    return [
        Report(file, [judge_row(family, row) for row in family.invented()])
        for file, family in sorted(served.values(), key=lambda pair: pair[0])
    ]


def unread_streams(folder: Path) -> dict[str, bool]:
    """Return for each file with streams whether rows find out a processor that lets streams pass unread.

    The rows are those of the folder and those made by hand.
    """
    found: dict[str, bool] = {}
    for path, family, rows in _served(folder):
        streams = [row for row in rows if {"chunks", "events"} & row.given.input.keys()]
        if streams:
            found[path.stem] = misses_streams(family, streams)
    return found


def _served(folder: Path) -> Iterator[tuple[Path, Family, list[Row]]]:
    """Yield the vector files of a folder that a family serves, with their rows and those made by hand."""
    for path in sorted(folder.rglob("*.json")):
        if path.stem in families():
            family = families()[path.stem][1]
            yield path, family, [*load(path, family), *family.invented()]


def ignored_options(folder: Path) -> dict[str, bool]:
    """Return for each option, ``file.option``, whether rows find out an implementation that ignores it.

    Of an option with a word for each way to work it is ``file.option=word``. The rows are those of the folder and those
    made by hand.
    """
    found: dict[str, bool] = {}
    for path, family, rows in _served(folder):
        for (option, way), setting in options_of(family, rows).items():
            name = f"{option}={way}" if way else option
            found[f"{path.stem}.{name}"] = is_found_out(family, setting, option)
    return found


def run_file(path: Path, saboteur: str = "") -> Report:
    """Return the report of one file: rows are a list, a scenario is an object with what was ``observed``.

    Whatever the file holds, the report says what came of it.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        if isinstance(content, list):
            if not saboteur:
                return Report(path.stem, _rows(path))
            with sabotage(saboteur) as play:
                return Report(path.stem, _rows(path, play))
        if isinstance(content, dict) and "observed" in content:
            return Report(path.stem, list(_scenario(path, content, saboteur)))
    except Exception as error:  # noqa: BLE001 - a file of another shape is a finding
        what = f"the file cannot be played: {type(error).__name__}: {error}"
        return Report(path.stem, [Finding(path.stem, "", "missing", detail=what)])
    return Report(path.stem, [Finding(path.stem, "", "missing", detail="neither rows nor a scenario")])


def _rows(path: Path, play: Play = honest) -> list[Finding]:
    served = families().get(path.stem)
    family = served[1] if served is not None else None
    return judge_rows(family, load(path, family), play)


def _scenario(path: Path, content: Any, saboteur: str) -> Iterable[Finding]:
    """Return the findings of a scenario, key by key; what waits for another part of the project is missing."""
    scenario = SCENARIOS.get(path.stem.split("-")[0])
    if scenario is None:
        return [Finding(path.stem, "", "missing", detail="no scenario of that name")]
    if saboteur == "echo":
        return _echoed(path.stem, content, scenario.keys)
    world = WORLDS[saboteur]() if saboteur else World()
    found = anyio.run(partial(judge, scenario, world, content))
    kinds: dict[str, Any] = {"stream": "missing", "agent": "missing", "missing": "differs" if saboteur else "missing"}
    return [
        Finding(
            path.stem,
            one.path,
            kinds.get(one.kind, one.kind),
            one.rule,
            f"waits for the {one.kind}" if one.kind in ("stream", "agent") else "",
            int(one.kind == "neutral"),
            one.expected,
            one.ours,
        )
        for one in found
    ]


def _echoed(file: str, content: Any, keys: Any) -> Iterable[Finding]:
    """Return what comes of an engine that repeats what is expected: of the recording, and of a falsified one."""
    observed, said = content["observed"], World().said
    for path, how, theirs in treatments(observed, keys):
        found = compare(file, content["given"], path, how, theirs, observed, said)
        yield Finding(file, found.path, "differs" if found.kind == "differs" else "neutral")
        if isinstance(how, Same):
            false = compare(file, content["given"], path, how, "planted", _with(observed, path, "planted"), said)
            if false.kind == "same":
                yield Finding(file, found.path, "differs", detail="a false expectation was met")


def _with(node: Any, path: tuple[str, ...], value: Any) -> Any:
    """Return a copy of a JSON value with another one at a path."""
    if not path:
        return value
    made = list(node) if isinstance(node, list) else dict(node)
    key: Any = int(path[0]) if isinstance(node, list) else path[0]
    made[key] = _with(node[key], path[1:], value)
    return made


__all__ = ["HERE", "SABOTEURS", "Report", "by_hand", "ignored_options", "run", "run_file", "unread_streams"]
