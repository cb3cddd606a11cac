"""A run as JSON values, and back: its conversation, facts, states of processors and budgets, without hidden values.

Values that a guard has put into the run's vault, so that they can be restored for the client, are stored as their
tokens. Facts and states that are no JSON values are not stored.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, cast

from penstock.engine.graph.plan import plan_steps
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import MessageError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import FrozenDict, freeze, is_items, is_mapping, json_value, thaw
from penstock.engine.values.list_views import Entry
from penstock.engine.values.model import Usage
from penstock.engine.values.tripwire import Tripwire
from penstock.formats import native
from penstock.processors.memory import VAULT, vault_redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.processor.state import States
    from penstock.engine.run.run import Run
    from penstock.engine.values.facts import AnyKey, Facts
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message


def redactor_of(run: Run) -> Callable[[Value], Value]:
    """Return a function that puts the tokens of a run's vault in place of their values, in all texts of JSON values."""
    change = vault_redactor(run.facts.get(VAULT))
    return _unchanged if change is None else lambda value: mapped(value, change)


def _unchanged(value: Value) -> Value:
    return value


def mapped(value: Value, change: Callable[[str], str]) -> Value:
    """Return a JSON value with all of its texts changed."""
    if isinstance(value, str):
        return change(value)
    if is_mapping(value):
        return {name: mapped(inner, change) for name, inner in value.items()}
    return [mapped(inner, change) for inner in value] if is_items(value) else value


def dump_run(run: Run) -> Values:
    """Return a run between two stages as JSON values."""
    standing = dict(run.standing())
    body = {
        **standing,
        "system": [dump_message(message) for message in standing["system"]],
        "messages": dump_entries(run.message_list),
        "facts": _json_values((key.name, fact) for key, fact in run.facts.items()),
        "states": _dump_states(run),
    }
    return cast("Values", freeze(redactor_of(run)(body)))


def restore_run(
    run: Run,
    body: Values,
    begin: MessageList,
    *,
    last_answer: str = "",
    answering: bool = False,
    vault: Value = None,
) -> None:
    """Let a new run stand where the dumped one stood; see `Run.restore`.

    Args:
        run: the run.
        body: what `dump_run` gave.
        begin: a list that makes the ids and times of new messages.
        last_answer: the id of the last answer; empty if there is none.
        answering: whether that answer is not accepted yet; see `Run.restore`.
        vault: the values that tokens stand for; None if this process does not know them.
    """
    known: dict[AnyKey, Value] = {Key(name): fact for name, fact in body["facts"].items()}
    facts: Facts = FrozenDict(known if vault is None else {**known, VAULT: vault})
    standing = FrozenDict({**body, "system": tuple(map(load_message, body["system"]))})
    states = _load_states(run.plans, body["states"])
    listed = load_entries(body["messages"], begin)
    run.restore(listed, facts, standing, states, last_answer=last_answer, answering=answering)


def dump_entries(messages: MessageList) -> list[dict[str, Value]]:
    """Return the messages of a list with their sources and tags as JSON values."""
    return [
        {"message": dump_message(entry.message), "source": entry.source, "tag": entry.tag} for entry in messages.entries
    ]


def load_entries(stored: Iterable[Values], begin: MessageList) -> MessageList:
    """Return the list that `dump_entries` wrote; ``begin``: a list that makes the ids and times of new messages."""
    return begin.with_entries(
        [Entry(load_message(entry["message"]), entry["source"], entry["tag"]) for entry in stored]
    )


def dump_message(message: Message) -> Values:
    """Return a message in Penstock's own form."""
    return native.write([message])[0]


def load_message(stored: Values) -> Message:
    """Return the message that `dump_message` wrote.

    Raises:
        MessageError: it is none.
    """
    return native.read([thaw(dict(stored))])[0]


def dump_usage(usage: Usage | None) -> Value:
    """Return a usage as a mapping."""
    return None if usage is None else {field.name: thaw(getattr(usage, field.name)) for field in fields(usage)}


def load_usage(stored: Value) -> Usage | None:
    """Return the usage that `dump_usage` wrote."""
    return None if stored is None else Usage(**stored)


def dump_verdict(tripwire: Tripwire | None) -> Value:
    """Return a verdict as a mapping; details that are no JSON values are left out."""
    if tripwire is None:
        return None
    details = _json_values(tripwire.metadata.items())
    own = {name: getattr(tripwire, name) for name in ("reason", "processor_id", "stage", "retry")}
    return {**own, "metadata": details}


def load_verdict(stored: Value) -> Tripwire | None:
    """Return the verdict that `dump_verdict` wrote."""
    return None if stored is None else Tripwire(**stored)


def _json_values(values: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    """Return those values that are JSON values, by name."""
    found: dict[str, Value] = {}
    for name, value in values:
        try:
            found[name] = thaw(json_value(value, name))
        except MessageError:
            continue
    return found


def _processors(plans: Plans) -> Mapping[str, AnyProcessor]:
    """Return the processors of a plan by the paths of their steps."""
    return {step.path: step.processor for stage in STAGES.values() for step in plan_steps(plans.stage(stage.name))}


def _dump_states(run: Run) -> dict[str, Value]:
    known = _processors(run.plans)
    dumped = ((path, known[path].dump_state(state)) for path, state in run.states.items() if path in known)
    return _json_values((path, state) for path, state in dumped if state)


def _load_states(plans: Plans, stored: Values) -> States:
    known = _processors(plans)
    return {path: known[path].load_state(state) for path, state in stored.items() if path in known}
