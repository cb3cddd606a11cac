"""`attack`: the attacks in turn, until the time is over; what leaked, in the smallest case, with the seed."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError
from penstock.testing.attack.attacks import ATTACKS, USUAL, rows_found
from penstock.testing.attack.cases import Case, Leak, find_leak
from penstock.testing.attack.rows import ROWS, Row
from penstock.testing.attack.targets import Target, target_of
from penstock.workflows.coverage.readings import ENFORCED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.workflow import Workflow
    from penstock.workflows.agent.agent import Agent
    from penstock.workflows.coverage.readings import Cell

MOST_LEAKS = 20
"""After so many leaks that are not plain an attack ends: they have few causes."""


@dataclass
class AttackReport:
    """The tried cases of an attack, and the leaks.

    Attributes:
        name: the name of the workflow or the agent.
        seed: the seed of its dice.
        leaks: the leaks, at most one for each attack, channel and kind of content, each in its smallest case.
        tried: how many cases were tried, by attack.
        rows: the rows that were used.
        missed: rows that were given, and that no guard finds.
        seconds: how long it took.
    """

    name: str
    seed: int
    leaks: list[tuple[str, Leak]] = field(default_factory=list[tuple[str, Leak]])
    tried: dict[str, int] = field(default_factory=dict[str, int])
    rows: tuple[Row, ...] = ()
    missed: tuple[Row, ...] = ()
    seconds: float = 0.0

    @property
    def found(self) -> bool:
        """Whether something leaked, or a row was found by no guard."""
        return bool(self.leaks or self.missed)

    @property
    def ended_early(self) -> bool:
        """Whether there were `MOST_LEAKS` leaks that are not plain; plain ones say that a channel is not read."""
        return sum(name != "plain" for name, _ in self.leaks) >= MOST_LEAKS

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON: docs/attack.md describes its form."""
        leaks = [
            {"attack": name, "reader": leak.reader, "read": leak.read, "case": asdict(leak.case)}
            for name, leak in self.leaks
        ]
        return {
            "name": self.name,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "tried": self.tried,
            "rows": [asdict(row) for row in self.rows],
            "missed": [asdict(row) for row in self.missed],
            "leaks": leaks,
        }

    def __str__(self) -> str:
        """Return the report as lines."""
        tried = ", ".join(f"{name} {count}" for name, count in self.tried.items() if count)
        lines = [f"attack on {self.name!r}, seed {self.seed}: {sum(self.tried.values())} cases in {self.seconds:.0f} s"]
        lines += [f"  {tried}"] * bool(tried)
        if not self.rows:
            lines.append("no guard of it finds any of the rows and acts on them; give rows of your own")
        lines += [f"not found by any guard: {row.text!r}" for row in self.missed]
        for name, leak in self.leaks:
            kind = f" ({leak.case.kind})" if leak.case.kind else ""
            lines += [f"{name}: {leak.case}{kind}", f"  the {leak.reader} read {leak.read!r}"]
            if leak.case.text != leak.read:
                lines.append(f"  in {' + '.join(_short(piece) for piece in leak.case.pieces)}")
        if not self.found and self.rows:
            lines.append("nothing leaked")
        if self.ended_early:
            lines.append(f"ended after {MOST_LEAKS} such leaks; mend them, and attack again")
        return "\n".join(lines)


def _short(piece: str) -> str:
    """Return a piece of a text as it may be shown; of a long one its ends."""
    shown = piece if len(piece) <= _SHOWN else f"{piece[: _SHOWN // 2]} … {piece[-_SHOWN // 2 :]}"
    return repr(shown)


_SHOWN = 200  # characters


def attack(
    attacked: Workflow | Agent | AnyProcessor,
    rows: Iterable[Row | str] | None = None,
    *,
    seconds: float | None = 60.0,
    seed: int = 0,
    most: int | None = None,
    only: Iterable[str] = (),
    progress: Callable[[AttackReport], object] | None = None,
) -> AttackReport:
    """Attack a workflow, an agent or a processor, and return the report.

    Requests run in the agent of the library, with a scripted model. Tools and the memory of an agent are not used. Its
    processors are: a guard that asks a model asks it, and one that writes to a store writes there.

    Args:
        attacked: the workflow, the agent or the processor.
        rows: texts that its guards must find; None: `ROWS`, those of the kinds that its guards find.
        seconds: how long it may take; None: until ``most`` cases are tried.
        seed: the seed of the dice. The same seed tries the same cases.
        most: how many cases are tried at most; None: no limit.
        only: the names of attacks, of `ATTACKS`; empty: all but ``encodings``.
        progress: called after each case.

    Raises:
        UsageError: there is no limit or no such attack, the processors of an agent are not known before a request, or
            an event loop runs in this thread already.
    """
    if seconds is None and most is None:
        raise UsageError("attack needs a limit: seconds= or most=")
    chosen = list(only) or list(USUAL)
    unknown = [name for name in chosen if name not in ATTACKS]
    if unknown:
        raise UsageError(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    target = target_of(attacked)
    report = AttackReport(target.name, seed, tried=dict.fromkeys(chosen, 0))
    begin = time.monotonic()
    end = None if seconds is None else begin + seconds
    _choose_rows(report, target, rows)
    for name, case in itertools.islice(_cases(target, report, chosen), most):
        report.tried[name] += 1
        _try(target, report, name, case)
        report.seconds = time.monotonic() - begin
        if progress is not None:
            progress(report)
        if report.ended_early or (end is not None and time.monotonic() >= end):
            break
    report.seconds = time.monotonic() - begin
    return report


def _choose_rows(report: AttackReport, target: Target, given: Iterable[Row | str] | None) -> None:
    """Note the rows that a guard of the target finds; of rows that were given, also those that none does."""
    kinds = [kind for step in target.coverage.steps for kind in step.finds if _acts(step.cells.values())]
    if given is None:
        rows = [row for row in ROWS if row.kind in kinds]
    else:
        rows = [Row(one) if isinstance(one, str) else one for one in given]
    found = [row for row in rows if rows_found(target, row)]
    report.rows = tuple(found)
    report.missed = () if given is None else tuple(row for row in rows if row not in found)


def _acts(cells: Iterable[Cell]) -> bool:
    """Return whether a step acts on findings, or would if it did not run in shadow."""
    return any(cell.reads in ENFORCED or "in shadow" in cell.conditions for cell in cells)


def _cases(target: Target, report: AttackReport, chosen: list[str]) -> Iterator[tuple[str, Case]]:
    """Yield the cases of all attacks and rows in turn; plain ones first."""
    streams = [
        (name, iter(ATTACKS[name](target, row, random.Random(f"{report.seed} {name} {index}"))))  # noqa: S311 - dice
        for name in chosen
        for index, row in enumerate(report.rows)
    ]
    first = [one for one in streams if one[0] == "plain"]
    for name, stream in first:
        yield from ((name, case) for case in stream)
    waiting = [one for one in streams if one[0] != "plain"]
    while waiting:
        for one in list(waiting):
            case = next(one[1], None)
            if case is None:
                waiting.remove(one)
            else:
                yield one[0], case


def _try(target: Target, report: AttackReport, name: str, case: Case) -> None:
    """Try a case, and note its leak in the smallest form, unless one of that attack, channel and kind is known."""
    where = (case.channel, case.kind)
    known = {(attack, leak.case.channel, leak.case.kind) for attack, leak in report.leaks}
    if (name, *where) in known or ("plain", *where) in known:
        return
    leak = find_leak(target, case)
    if leak is not None:
        report.leaks.append((name, shrunk(target, leak)))


def shrunk(target: Target, leak: Leak) -> Leak:
    """Return the smallest leak that is reached from a leak by leaving something out."""
    while True:
        for case in _smaller(leak.case):
            found = find_leak(target, case)
            if found is not None:
                leak = found
                break
        else:
            return leak


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with less in them: no fault, no other order, fewer pieces, less text."""
    if case.fault is not None:
        yield replace(case, fault=None)
    if case.order:
        yield replace(case, order=0)
    if case.stalls:
        yield replace(case, stalls=False)
    pieces = case.pieces
    if len(pieces) > 1:
        yield replace(case, pieces=(case.text,))
        half = len(pieces) // 2
        yield from [replace(case, pieces=("".join(pieces[:half]), "".join(pieces[half:])))] * (half > 1)
        for index in range(len(pieces) - 1):
            yield replace(case, pieces=(*pieces[:index], pieces[index] + pieces[index + 1], *pieces[index + 2 :]))
    yield from _shorter(case)


def _shorter(case: Case) -> Iterator[Case]:
    """Yield cases without a word before or behind the secret."""
    secret = next((one for one in case.secrets if one in case.text), case.text)
    if len(case.pieces) > 1 or secret == case.text:
        return
    before, _, behind = case.text.partition(secret)
    for text in (secret, before + secret, secret + behind):
        if len(text) < len(case.text):
            yield replace(case, pieces=(text,))
