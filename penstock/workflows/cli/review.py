"""The command ``penstock review``: list and show requests that wait for a person, and store decisions about them."""

from __future__ import annotations

import getpass
import json
from typing import IO, TYPE_CHECKING, cast

import anyio
from rich import box
from rich.table import Table
from rich.text import Text

from penstock.engine.tracing.display import visible
from penstock.engine.values.frozen import thaw
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.formatting import console_for, plain
from penstock.workflows.cli.memory import open_store, shown_time
from penstock.workflows.loading import load_rule
from penstock.workflows.review.reviews import Reviews

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import RunStore
    from penstock.engine.values.stored import RunStatus
    from penstock.workflows.review.waiting import WaitingCall, WaitingRun


def review(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Run one action, and return the exit code.

    Raises:
        CommandError: the arguments are not usable.
        PenstockError: the store failed, or a decision is not possible.
    """
    rule = load_rule(getattr(args, "may_decide", None))

    async def run_action() -> Exit:
        store = open_store(args.store, creates=False)
        try:
            reviews = Reviews(cast("RunStore", store), may_decide=rule)
            return await _ACTIONS[args.action](reviews, args, stdout)
        finally:
            await store.close()

    return anyio.run(run_action)


async def _list(reviews: Reviews, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    status: RunStatus | None = None if args.all else "waiting"
    page = await reviews.runs(status=status, agent=args.agent, limit=args.limit)
    if args.format == "jsonl":
        for run in page.items:
            stdout.write(json.dumps(run.to_json(), ensure_ascii=False) + "\n")
        return Exit.OK
    console = console_for(stdout)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for name in ("run", "agent", "status", "calls", "since"):
        table.add_column(name, overflow="fold", no_wrap=name in ("run", "since"))
    for run in page.items:
        since = shown_time(run.created_at, "minutes")
        cells = (run.run_id, run.agent, run.status, _calls_in_short(run.calls), since)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    if page.items:
        console.print(table, "")
    more = ", and more" if page.following else ""
    console.print(f"{len(page.items)} {'request' if len(page.items) == 1 else 'requests'}{more}")
    return Exit.OK


def _calls_in_short(calls: Sequence[WaitingCall]) -> str:
    return ", ".join(f"{call.tool}: {_decided(call)}" for call in calls)


def _decided(call: WaitingCall) -> str:
    made = call.decision
    words = {"approve": "approved", "reject": "rejected", "answer": "answered"}
    awaited = {"approval": "approval", "result": "a result", "question": "an answer", "run": "its own run"}
    return f"waits for {awaited[call.kind]}" if made is None else words[made.verdict]


async def _show(reviews: Reviews, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    run = await reviews.run(args.run)
    if args.format in ("json", "jsonl"):
        told = {**run.to_json(), "record": await reviews.record(args.run)}
        stdout.write(json.dumps(told, ensure_ascii=False, indent=2 if args.format == "json" else None) + "\n")
        return Exit.OK
    console = console_for(stdout)
    due = "may be taken over" if run.status == "running" else "expires"
    fields = [("run", run.run_id), ("agent", run.agent), ("status", run.status), ("thread", run.thread_id or "")]
    fields += [("owner", run.resource_id or ""), ("since", shown_time(run.created_at)), (due, shown_time(run.due_at))]
    fields += [("question", run.question), ("answer", run.text)]
    for label, text in fields:
        if text:
            console.print(Text.assemble((f"{label}: ", "dim"), visible(text)), soft_wrap=True)
    for call in run.calls:
        console.print()
        console.print(Text.assemble((visible(call.tool), "bold"), (f"  {call.call_id}", "dim"), f"  {_decided(call)}"))
        console.print(Text(f"  {visible(_json(call.arguments))}"), soft_wrap=True)
        made = call.decision
        if made is not None:
            by = f" by {visible(made.by)}" if made.by else ""
            why = f": {visible(made.reason)}" if made.reason else ""
            console.print(Text(f"  {_decided(call)}{by} at {made.at}{why}", "dim"), soft_wrap=True)
    return Exit.OK


async def _approve(reviews: Reviews, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    given = None if args.arguments is None else _read(args.arguments, "--arguments")
    return _told(await reviews.approve(args.run, args.call, arguments=given, by=_who(args)), stdout)


async def _reject(reviews: Reviews, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    return _told(await reviews.reject(args.run, args.call, reason=args.reason, by=_who(args)), stdout)


async def _answer(reviews: Reviews, args: argparse.Namespace, stdout: IO[str]) -> Exit:
    return _told(await reviews.answer(args.run, args.call, _read(args.value, "JSON"), by=_who(args)), stdout)


def _told(run: WaitingRun, stdout: IO[str]) -> Exit:
    left = len(run.undecided)
    ready = "it can go on" if not left else f"{left} {'call is' if left == 1 else 'calls are'} undecided"
    stdout.write(f"{run.run_id}: {_calls_in_short(run.calls)}; {ready}\n")
    return Exit.OK


def _who(args: argparse.Namespace) -> str:
    return user_name() if args.by is None else str(args.by)


def user_name() -> str:
    """Return the name of the user who runs the command; empty if the system knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _read(text: str, what: str) -> Value:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CommandError(f"{what} is not JSON ({error}); a text needs quotes: '\"yes\"'") from None


def _json(value: Value) -> str:
    return json.dumps(thaw(value), ensure_ascii=False)


_ACTIONS = {"list": _list, "show": _show, "approve": _approve, "reject": _reject, "answer": _answer}
