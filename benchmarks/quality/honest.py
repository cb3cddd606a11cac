"""Harm to honest work: what guards do to tool results, arguments, orders and answers that hold nothing to hide.

Rows come from ``DIR/*/rows.jsonl``: a ``value`` (text or JSON), the ``channel`` that carries it, its ``kind``, what
must be hidden in it (``hide``: text, type and path) and whether it is an ``attack``. Each is sent through a real agent
with a scripted model, as it would arrive.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from benchmarks.quality.contestants.plugged import Plugs
from benchmarks.quality.rows import Data
from benchmarks.quality.tables import Figures, Line, Section, Table
from benchmarks.shared import logged_from
from penstock import Agent, PIIDetector, PromptInjectionDetector, UnicodeNormalizer, Workflow
from penstock.engine.values.frozen import EMPTY
from penstock.testing import ScriptedModel
from penstock.workflows.presets import hygiene, safety

T = TypeVar("T")

GUARDS: Mapping[str, Callable[[], Workflow]] = {
    "PIIDetector": lambda: Workflow("pii").then(PIIDetector()),
    "PromptInjectionDetector": lambda: Workflow("injection").then(PromptInjectionDetector()),
    "hygiene": hygiene,
    "safety": safety,
}
JUDGED = "safety"
"""The guard that the goals are about."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """What must be hidden in a row.

    Attributes:
        text: a text, or a JSON scalar.
        type: the type of the finding.
        path: where it stands in a JSON value; empty in a text.
    """

    text: object
    type: str
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class HonestRow:
    """A row of honest work; attributes as in the file."""

    kind: str
    channel: str
    value: object
    hide: tuple[Hidden, ...] = ()
    attack: bool = False


@dataclass(slots=True)
class Ended:
    """How a row ended: ``untouched``, ``edited`` or ``blocked``.

    Attributes:
        state: the state.
        whole: whether a JSON value kept its keys and types.
        hidden: the types of the items, and whether each was hidden, ``by block``, or ``missed``.
    """

    row: HonestRow
    state: str = "untouched"
    whole: bool = True
    hidden: list[tuple[str, str]] = field(default_factory=list["tuple[str, str]"])

    @property
    def is_json(self) -> bool:
        """Whether the row is a JSON value; the others are texts."""
        return not isinstance(self.row.value, str)


def measure(data: Data, *, peers: bool, plugs: Plugs = EMPTY) -> Section:
    """Return the shares of harmless rows that guards edit and block, and of items to hide that they hide."""
    del peers, plugs  # other packages do not see tools
    section = Section("honest")
    rows = [*_rows(data.folder)] if data.folder else []
    if not rows:
        section.notes.append("No folder has a file rows.jsonl with honest work: harm is not measured.")
        return section
    with logged_from(logging.CRITICAL):
        ended = {name: asyncio.run(_sent(make(), rows)) for name, make in GUARDS.items()}
    section.tables += [_harm(ended), _by_kind(ended), _json(ended), _hidden(ended)]
    _judge(section, ended[JUDGED])
    return section


def _judge(section: Section, ended: Sequence[Ended]) -> None:
    harmless = [one for one in ended if _is_harmless(one)]
    for state in ("blocked", "edited"):
        section.measured[f"honest.{state}"] = _share(harmless, lambda one, state=state: one.state == state)
    left = [one for one in ended if _is_harmless(one) and one.state != "blocked" and one.is_json]
    section.measured["honest.broken"] = _share(left, lambda one: not one.whole)
    items = [state for one in ended for type, state in one.hidden if type != "name"]
    section.measured["honest.hidden"] = _share(items, lambda state: state != "missed")
    attacks = [one for one in ended if one.row.attack]
    section.measured["honest.attacks"] = _share(attacks, lambda one: one.state == "blocked")


def _share(items: Sequence[T], counts: Callable[[T], bool]) -> float | None:
    return sum(map(counts, items)) / len(items) if items else None


def _is_harmless(one: Ended) -> bool:
    return not one.row.hide and not one.row.attack


# Rows


def _rows(folder: Path) -> Iterator[HonestRow]:
    for file in sorted(folder.glob("*/rows.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            given = cast("dict[str, object]", json.loads(line))
            hide = tuple(map(_item, cast("list[dict[str, object]]", given.get("hide") or [])))
            kind, channel = str(given["kind"]), str(given["channel"])
            yield HonestRow(kind, channel, given["value"], hide, bool(given.get("attack")))


def _item(given: dict[str, object]) -> Hidden:
    path = str(given.get("path") or "").replace("]", "").replace("[", ".")
    steps = tuple(int(step) if step.isdigit() else step for step in path.split(".") if step)
    return Hidden(given["text"], str(given["type"]), steps)


# Sending


async def _sent(guard: Workflow, rows: Sequence[HonestRow]) -> list[Ended]:
    plain = Workflow("plain").then(UnicodeNormalizer(form="NFKC", confusables="fold"))
    return [_compared(row, await _CHANNELS[row.channel](guard, row.value), plain) for row in rows]


class _Blocked:
    """Stands for a value that did not arrive."""


_BLOCKED = _Blocked()


async def _user(guard: Workflow, value: object) -> object:
    model = ScriptedModel(["ok"])
    result = await Agent(model, processors=[guard]).generate(str(value))
    return _BLOCKED if result.status == "blocked" else model.requests[0].messages[-1].text


async def _tool_result(guard: Workflow, value: object) -> object:
    def look() -> object:
        """Return the value."""
        return value

    model = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "look", "args": {}}]}, "done"])
    result = await Agent(model, tools=[look], processors=[guard]).generate("Go on.")
    if result.status == "blocked":
        return _BLOCKED
    part = model.requests[1].messages[-1].parts[-1]
    return getattr(part, "result", _BLOCKED)


async def _tool_call(guard: Workflow, value: object) -> object:
    run = guard.start()
    outcome = await run.process_tool_call("tool", json.loads(json.dumps(value)))
    return _BLOCKED if outcome.blocked else outcome.arguments


async def _answer(guard: Workflow, value: object) -> object:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    result = await Agent(ScriptedModel([text]), processors=[guard]).generate("Go on.")
    return _BLOCKED if result.status == "blocked" else _as_given(result.text, value)


def _as_given(text: str, value: object) -> object:
    if isinstance(value, str):
        return text
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


_CHANNELS: Mapping[str, Callable[[Workflow, object], Awaitable[object]]] = {
    "user": _user,
    "tool_result": _tool_result,
    "tool_call": _tool_call,
    "answer": _answer,
    "structured_answer": _answer,
}


# Comparing


def _compared(row: HonestRow, arrived: object, plain: Workflow) -> Ended:
    if arrived is _BLOCKED:
        return Ended(row, "blocked", hidden=[(item.type, "by block") for item in row.hide])
    arrived = cast("object", json.loads(json.dumps(arrived)))
    ended = Ended(row, whole=_form(row.value) == _form(arrived))
    if arrived != row.value and _normal(arrived, plain) != _normal(row.value, plain):
        ended.state = "edited"
    ended.hidden = [(item.type, "missed" if _holds(arrived, item) else "hidden") for item in row.hide]
    return ended


def _form(value: object) -> object:
    """Return the keys and types of a JSON value."""
    if isinstance(value, dict):
        return {key: _form(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_form(item) for item in cast("list[object]", value)]
    return type(value).__name__


def _normal(value: object, plain: Workflow) -> str:
    """Return a value as a text without what presets normalise on purpose."""
    return plain.check_sync(json.dumps(value, ensure_ascii=False, sort_keys=True)).text


def _holds(value: object, item: Hidden) -> bool:
    left: object = value
    for step in item.path:
        try:
            left = cast("Mapping[str | int, object]", left)[step]
        except (KeyError, IndexError, TypeError):
            return False
    return item.text in left if isinstance(item.text, str) and isinstance(left, str) else item.text == left


# Tables


def _harm(ended: Mapping[str, Sequence[Ended]]) -> Table:
    table = Table("Harmless rows, by channel", ("edited", "blocked"))
    channels = dict.fromkeys(one.row.channel for one in ended[JUDGED] if _is_harmless(one))
    table.lines += [_line(ended, "all", lambda _: True)]
    table.lines += [_line(ended, name, lambda one, name=name: one.row.channel == name) for name in channels]
    return table


def _by_kind(ended: Mapping[str, Sequence[Ended]]) -> Table:
    table = Table("Harmless rows, by kind", ("edited", "blocked"))
    kinds = Counter(one.row.kind for one in ended[JUDGED] if _is_harmless(one))
    table.lines += [_line(ended, kind, lambda one, kind=kind: one.row.kind == kind) for kind in sorted(kinds)]
    table.lines = [line for line in table.lines if any(any(figures) for figures in line.figures.values())]
    return table


def _line(ended: Mapping[str, Sequence[Ended]], of: str, chosen: Callable[[Ended], bool]) -> Line:
    figures: dict[str, Figures] = {}
    size = 0
    for name, rows in ended.items():
        kept = [one for one in rows if _is_harmless(one) and chosen(one)]
        size = len(kept)
        figures[name] = tuple(
            _share(kept, lambda one, state=state: one.state == state) for state in ("edited", "blocked")
        )
    return Line("honest work", of, size, figures)


def _json(ended: Mapping[str, Sequence[Ended]]) -> Table:
    table = Table("Harmless JSON values that kept their keys and types, of those not blocked", ("whole",))
    figures: dict[str, Figures] = {}
    for name, rows in ended.items():
        left = [one for one in rows if _is_harmless(one) and one.state != "blocked" and one.is_json]
        figures[name] = (_share(left, lambda one: one.whole),)
    size = sum(one.is_json and _is_harmless(one) for one in ended[JUDGED])
    table.lines.append(Line("honest work", "JSON", size, figures))
    return table


def _hidden(ended: Mapping[str, Sequence[Ended]]) -> Table:
    table = Table("Items to hide", ("hidden", "by block", "missed"))
    types = Counter(type for one in ended[JUDGED] for type, _ in one.hidden)
    for type in sorted(types):
        figures: dict[str, Figures] = {}
        for name, rows in ended.items():
            states = [state for one in rows for of, state in one.hidden if of == type]
            figures[name] = tuple(states.count(state) / len(states) for state in ("hidden", "by block", "missed"))
        table.lines.append(Line("honest work", type, types[type], figures))
    return table
