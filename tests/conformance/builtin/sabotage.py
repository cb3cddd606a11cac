"""Ways to do it wrong that every file must find out: processors that pass, block or drop all, and an echo.

The first three stand in for whatever a family places in a workflow, so that its own driving is tested too: what drives
nothing, but answers from the vectors' shapes, would stay green. A helper that is called without a workflow answers 0.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from penstock import Workflow
from penstock.engine.processor.stages import STAGES
from tests.conformance.builtin.frame import VERDICTS, Family, Fields, Play, Row, honest, judge
from tests.conformance.runtime.driver import Hooks

MESSAGE_STAGES = [name for name, stage in STAGES.items() if not stage.streams and "tool" not in name]


def echo(_family: Family, row: Row) -> Fields:
    """Repeat what is expected."""
    return copy.deepcopy(row.expected)


def blocking() -> Hooks:
    """Return a processor that stops every stage."""
    hooks: dict[str, Any] = {name: lambda ctx: ctx.abort("no") for name, stage in STAGES.items() if not stage.streams}
    return Hooks("no", **hooks, process_output_stream=lambda _chunk, ctx: ctx.abort("no"))


def dropping() -> Hooks:
    """Return a processor that leaves no message and no chunk."""
    hooks: dict[str, Any] = {name: lambda ctx: ctx.message_list.clear() for name in MESSAGE_STAGES}
    return Hooks("nothing", **hooks, process_output_stream=lambda _chunk, _ctx: None)


SABOTEURS = {"pass all": None, "block all": blocking, "drop all": dropping, "echo": echo}


def options_of(family: Family, rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the options of a family that any row sets to something else than the default, with those rows.

    An option with a word for each way to work (``trim_mode``) is returned once a word, with the word.
    """
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        default = family.complete(_required(row))
        for name, value in row.given.options.items():
            if value != default.get(name) and name not in _required(row):
                way = value if isinstance(value, str) and isinstance(default.get(name), str) else ""
                found.setdefault((name, way), []).append(row)
    return found


def _required(row: Row) -> Fields:
    """Return the options without which a row says nothing: the processors of a chain, with options of their own."""
    return {name: value for name, value in row.given.options.items() if name == "chain"}


def is_found_out(family: Family, rows: Iterable[Row], option: str) -> bool:
    """Tell whether one of the rows fails for an implementation that takes the option and ignores it."""

    def ignoring(family: Family, row: Row) -> Fields:
        default = family.complete(_required(row))
        others = {name: value for name, value in row.given.options.items() if name != option}
        options = {**others, option: default[option]} if option in default else others
        return family.run(copy.deepcopy(replace(row.given, options=options)))

    return any(not judge(family, row, ignoring).passed for row in rows if judge(family, row).passed)


def misses_streams(family: Family, rows: Iterable[Row]) -> bool:
    """Tell whether one of the rows, of streams, fails for an implementation that lets streams pass unread."""
    with sabotage("pass all") as play:
        suspects = [row for row in rows if not judge(family, row, play).passed]
    return any(judge(family, row).passed for row in suspects)


@contextmanager
def sabotage(name: str) -> Iterator[Play]:
    """Give a way to play rows wrongly."""
    if name == "echo":
        yield echo
        return
    make: Any = SABOTEURS[name]
    placing = Workflow._with
    standing_in = None if make is None else Workflow("sabotage").then(make())
    placed: list[object] = []

    def place(workflow: Workflow, node: object) -> Workflow:
        placed.append(node)
        return workflow if standing_in is None or workflow.root.nodes else placing(workflow, standing_in.root.nodes[0])

    def play(family: Family, row: Row) -> Fields:
        placed.clear()
        fields = honest(family, row)
        return fields if placed else {name: 0 for name in row.expected if name not in VERDICTS}

    with mock.patch.object(Workflow, "_with", place):
        yield play
