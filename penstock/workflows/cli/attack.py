"""The command ``penstock attack``: try to get texts past the guards of a workflow or an agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from penstock.engine.values.errors import UsageError
from penstock.lazy import by_name
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import readable, refuse_source, write_line, writing
from penstock.workflows.loading import load_workflow_or_agent

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

_ATTACKS = "penstock.testing.attack"
"""The module of the attacks, which is in the layer above, and so is loaded by its name."""


class ReportOfAttack(Protocol):
    """The report of an attack; see `penstock.testing.attack.AttackReport`."""

    @property
    def found(self) -> bool:
        """Whether something leaked, or a row was found by no guard."""
        ...

    @property
    def leaks(self) -> Sequence[object]:
        """The leaks."""
        ...

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON."""
        ...


def attack(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Attack, write the report, and return the exit code: 1 if something leaked, or a row was found by no guard.

    Raises:
        CommandError: the rows or an attack are wrong, or the processors of the agent are not known before a request.
    """
    attacked = load_workflow_or_agent(args.workflow)
    run: Callable[..., ReportOfAttack] = by_name(_ATTACKS, "attack")
    try:
        rows = None if args.rows is None else _rows(args.rows)
        report = run(attacked, rows, seconds=args.seconds, seed=args.seed, most=args.most, only=args.only or ())
    except UsageError as error:
        raise CommandError(f"cannot attack {args.workflow}: {error}") from error
    text = json.dumps(report.to_json(), indent=2, ensure_ascii=False) if args.format == "json" else str(report)
    stdout.write(f"{text if args.format == 'json' else readable(text)}\n")
    if args.write_test is not None and report.leaks:
        _write_test(report, args.workflow, args.write_test, args.test_format)
    return Exit.FOUND if report.found else Exit.OK


def _rows(file: str) -> list[object]:
    parse: Callable[[list[str]], list[object]] = by_name(_ATTACKS, "parse_rows")
    return parse(Path(file).read_text("utf-8").splitlines())


def _write_test(report: ReportOfAttack, reference: str, file: str, runner: str) -> None:
    as_test: Callable[[ReportOfAttack, str, str], str] = by_name(_ATTACKS, "as_test")
    refuse_source(file)
    with writing(file, sys.stdout) as out:
        out.write(as_test(report, reference, runner))
    write_line(f"wrote {file}")
