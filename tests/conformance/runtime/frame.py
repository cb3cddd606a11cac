"""How a recorded scenario is compared with ours, key by key; it knows no scenario and nothing of the engine.

Every key of ``observed`` has a treatment, found by its path (names joined by ``/``; ``*`` stands for any one):
`SAME` (equal after the projection), `Better` (equal to a rule's new exact expectation, and unlike the reference),
`Neutral` (no user can see it). A key without one is an error, so no
observation is overlooked; where the recorded advice is *match*, `Better` is an error unless the design overrules it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from tests.conformance.runtime.projection import project

ORACLE = Path(__file__).parents[1] / "oracle" / "runtime"

Rule = Callable[[Any, tuple[str, ...], Any], Any]
"""From what was given, the key's path and what the reference did there to what is right. It sees nothing of ours."""


@dataclass(frozen=True)
class Same:
    """The reference does it well: ours is equal after the projection."""


@dataclass(frozen=True)
class Better:
    """The reference does it badly: ours is what the rule says."""

    rule: Rule


@dataclass(frozen=True)
class Neutral:
    """An internal of the reference that no user can see."""

    why: str


Treatment = Same | Better | Neutral
SAME = Same()
LOGGED = Neutral("log lines: their wording and number are the reference's own")


@dataclass(frozen=True)
class Finding:
    """What came of one key."""

    file: str
    path: str
    kind: Literal["same", "better", "neutral", "differs", "missing"]
    rule: str = ""
    expected: Any = field(default=None, repr=False)
    ours: Any = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.kind not in ("differs", "missing")


Play = Callable[[Any, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Scenario:
    """One recorded file: how to play it with our engine, and how each key counts."""

    file: str
    play: Play
    keys: Mapping[str, Treatment]
    overrules: str = ""

    def recorded(self) -> dict[str, Any]:
        """Return the recorded file."""
        [path] = ORACLE.glob(f"{self.file}-*.json")
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found


SCENARIOS: dict[str, Scenario] = {}


def scenario(file: str, keys: Mapping[str, Treatment], *, overrules: str = "") -> Callable[[Play], Play]:
    """Note a scenario: ``play(world, given)`` returns ours in the shape of ``observed``.

    ``overrules`` says which decision of the design stands against a recorded advice to match.
    """

    def note(play: Play) -> Play:
        assert file not in SCENARIOS, file
        SCENARIOS[file] = Scenario(file, play, {"logged": LOGGED, **keys}, overrules)
        return play

    return note


async def judge(one: Scenario, world: Any, recorded: Mapping[str, Any] | None = None) -> list[Finding]:
    """Play a scenario and compare it key by key; with what was recorded in another file, if one is given."""
    recorded = recorded or one.recorded()
    treated = list(treatments(recorded["observed"], one.keys))
    if recorded["advice"]["verdict"] == "match" and not one.overrules:
        assert not [path for path, how, _ in treated if isinstance(how, Better)], f"{one.file} is to be matched"
    try:
        ours = await one.play(world, recorded["given"])
    except Exception as error:  # noqa: BLE001 - whatever a broken engine does is a finding
        ours = {"crashed": repr(error)}
    return [_compared(one.file, recorded["given"], key, ours, world) for key in treated]


def _compared(file: str, given: Any, key: tuple[tuple[str, ...], Treatment, Any], ours: Any, world: Any) -> Finding:
    """Return what came of one key; an observation that a rule cannot read is not what was expected."""
    path, how, theirs = key
    try:
        return compare(file, given, path, how, theirs, ours, world.said)
    except Exception as error:  # noqa: BLE001 - what others recorded may be of any shape
        rule = how.rule.__name__ if isinstance(how, Better) else ""
        return Finding(file, "/".join(path), "differs", rule, theirs, f"{type(error).__name__}: {error}")


def treatments(
    node: Any, keys: Mapping[str, Treatment], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Treatment, Any]]:
    """Yield the keys of what was observed with their treatment; the first pattern that fits a path decides."""
    name = "/".join(path)
    found = next((how for pattern, how in keys.items() if _fits(path, pattern)), None)
    if found is not None:
        yield path, found, node
    elif isinstance(node, dict):
        for key, below in node.items():
            yield from treatments(below, keys, (*path, key))
    elif isinstance(node, list):
        for index, below in enumerate(node):
            yield from treatments(below, keys, (*path, str(index)))
    else:
        raise AssertionError(f"no treatment for the key {name!r}")


def _fits(path: tuple[str, ...], pattern: str) -> bool:
    """Tell whether a path is the pattern, name by name."""
    names = pattern.split("/")
    return len(names) == len(path) and all(fnmatchcase(name, one) for name, one in zip(path, names, strict=True))


_ABSENT = object()


def compare(
    file: str,
    given: Any,
    path: tuple[str, ...],
    how: Treatment,
    theirs: Any,
    ours: Any,
    said: Callable[[Any, tuple[str, ...]], Any],
) -> Finding:
    """Return what came of one key; ``said`` leaves out on both sides what the model's carrier cannot say."""
    name = "/".join(path)
    if isinstance(how, Neutral):
        return Finding(file, name, "neutral")
    mine = at(ours, path)
    rule = how.rule.__name__ if isinstance(how, Better) else ""
    expected = how.rule(given, path, theirs) if isinstance(how, Better) else project(theirs, path[-1])
    if mine is _ABSENT:
        return Finding(file, name, "missing", rule, expected, ours)
    expected, mine = said(expected, path), said(mine, path)
    if isinstance(how, Better):
        good = mine == expected and expected != project(theirs, path[-1])
        return Finding(file, name, "better" if good else "differs", rule, expected, mine)
    shown = said(project(mine, path[-1]), path)
    return Finding(file, name, "same" if shown == expected else "differs", "", expected, shown)


def at(node: Any, path: tuple[str, ...]) -> Any:
    """Return what stands at a path, or a mark that nothing does."""
    for key in path:
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            return _ABSENT
    return node
