"""`GuardReporter`: how a guard reports its findings: counts, log lines, callbacks, and the verdict that stops the run.

All built-in guards use it, so their facts, records and verdicts have one form. Reports never quote a text; only
callbacks are given text, and only if the guard's user asks for that.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from penstock.engine.processor.stages import STAGES
from penstock.engine.text_guards.reading import OF_MESSAGE
from penstock.engine.values.frozen import EMPTY, FrozenDict, is_mapping
from penstock.engine.values.texts import KeyText
from penstock.engine.workers import call_back

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Found, TextWindow
    from penstock.engine.values.facts import Key
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.texts import TextPlace

log = logging.getLogger("penstock")
findings_log = logging.getLogger("penstock.findings")
"""The logger of findings that guards let pass, so that an application can turn it off alone."""

MOST_LISTED = 100
"""The most findings that the metadata of a tripwire list; their counts are of all findings."""

F = TypeVar("F", bound="Found")


class Flagged(Protocol):
    """A report about a text, which may be flagged."""

    @property
    def flagged(self) -> bool:
        """True if something was found that counts."""
        ...


@dataclass(frozen=True)
class GuardReporter:
    """Reports for one guard.

    Attributes:
        strategy: the guard's action on its findings; it stands in the metadata of every tripwire.
        callbacks: the guard's callbacks by the name of their option; None for one that is not set.
        shows_text: whether callbacks are given text. The error of a callback is then logged without its traceback,
            which could show the text.
    """

    strategy: str
    callbacks: Mapping[str, Callable[[Any], object] | None] = EMPTY
    shows_text: bool = False

    def is_heard(self) -> bool:
        """Return whether any callback is set."""
        return any(map(callable, self.callbacks.values()))

    def call(self, ctx: AnyContext, option: str, report: object) -> None:
        """Call a callback with a report, if it is set: on the event loop, also where the guard runs in a worker.

        An error in it is logged and is not the guard's failure.
        """
        callback = self.callbacks.get(option)
        if callback is None:
            return
        try:
            call_back(partial(callback, report))
        except Exception as error:
            trace = None if self.shows_text else error
            log.error("%s: %s raised %s", ctx.step_path, option, type(error).__name__, exc_info=trace)  # noqa: TRY400

    def report(self, ctx: AnyContext, detection: Flagged) -> None:
        """Call ``on_detection`` with the report about a text and, if that flags it, ``on_violation``."""
        self.call(ctx, "on_detection", detection)
        if detection.flagged:
            self.call(ctx, "on_violation", detection)

    def warn(self, ctx: AnyContext, names: Iterable[str], what: str = "found") -> None:
        """Flag the names of findings that pass in the step's record, and log them, each once."""
        named = tuple(dict.fromkeys(names))
        ctx.flag(*named)
        findings_log.warning("%s: %s in %s: %s", ctx.step_path, what, ctx.stage, ", ".join(named))

    def block(self, ctx: AnyContext, names: Iterable[str], metadata: Mapping[str, Value], why: str = "") -> NoReturn:
        """Stop the run.

        Args:
            ctx: the context of the call.
            names: the names of the findings; the reason has each once.
            metadata: the metadata of the tripwire, beside ``strategy``.
            why: the beginning of the reason, if the strategy alone does not explain it.
        """
        named = ", ".join(dict.fromkeys(names))
        self.stop(ctx, f"{why}the text holds what may not pass: {named}", metadata)

    def stop(self, ctx: AnyContext, reason: str, metadata: Mapping[str, Value]) -> NoReturn:
        """Stop the run with a reason; the metadata of the tripwire have ``strategy``, too.

        If a finding stands in a system message of a client, the reason says how to make the message the application's.
        """
        said: dict[str, Any] = {"strategy": self.strategy, **metadata}
        listed: list[Mapping[str, Value]] = [*(metadata.get("spans") or ()), *(metadata.get("matches") or ())]
        cure = _SYSTEM_CURE if _in_system(ctx, listed) else ""
        found_ids = {item["message_id"] for item in listed if item.get("field") in ("id", "metadata")}
        for name in ("spans", "matches") if found_ids else ():
            if name in said:  # formats keep an id in metadata, too; an id that holds a finding is not told
                said[name] = [{**item, "message_id": _without(item["message_id"], found_ids)} for item in said[name]]
        ctx.abort(f"{reason}{cure}", metadata=said)

    @staticmethod
    def count(ctx: AnyContext, fact: Key[Mapping[str, int]], counts: Mapping[str, int], note: str = "found") -> None:
        """Add counts to a fact and to the step's record.

        In a stream the record has the sums of the run so far, in other stages the counts of this call.

        Args:
            ctx: the context of the call.
            fact: the fact of the counts of the run.
            counts: how often each thing was found, by name.
            note: the name of the counts in the record.
        """
        sums = add_counts(ctx, fact, counts)
        ctx.note(**{note: dict(sums if STAGES[ctx.stage].streams else counts)})


_SYSTEM_CURE = (
    "; it stands in a system message that was parsed, which counts as a client's: if your application wrote it, pass "
    "it as instructions= or as Message.system(…), or parse it with trusted=True; system='none' leaves all unchecked"
)


def _without(message_id: str, found: Collection[str]) -> str:
    return "" if message_id in found else message_id


def _in_system(ctx: AnyContext, listed: Iterable[Mapping[str, Value]]) -> bool:
    """Return whether one of the listed findings stands in a system message of a client."""
    if STAGES[ctx.stage].phase == "output" or STAGES[ctx.stage].value:
        return False
    sent = {message.id for message in ctx.message_list.system if message.from_client}
    return any(item.get("message_id") in sent for item in listed)


def add_counts(ctx: AnyContext, fact: Key[Mapping[str, int]], counts: Mapping[str, int]) -> Mapping[str, int]:
    """Add counts to those that a fact has from earlier stages. Returns the sums."""
    before = ctx.get(fact) or EMPTY
    sums = FrozenDict({name: before.get(name, 0) + counts.get(name, 0) for name in {**before, **counts}})
    ctx.put(fact, sums)
    return sums


def note_counts(ctx: AnyContext, name: str, counts: Mapping[str, int]) -> None:
    """Add counts to those that the record has of this call, in a stream to those of the run."""
    kept: Mapping[str, int] = EMPTY
    state: Value = ctx.state if STAGES[ctx.stage].streams else None
    if is_mapping(state):
        kept = state.get(f"penstock.{name}", EMPTY)
    elif ctx.effects is not None and ctx.effects.notes:
        kept = ctx.effects.notes.get(name, EMPTY)
    sums = {**kept, **{name: kept.get(name, 0) + count for name, count in counts.items()}}
    if is_mapping(state):
        state[f"penstock.{name}"] = sums
    ctx.note(**{name: sums})


def by_place(window: TextWindow, found: Iterable[F]) -> dict[TextPlace, list[F]]:
    """Return findings by the text in which each begins; a window may cover several texts that were read as one."""
    places: dict[TextPlace, list[F]] = {}
    for item in found:
        places.setdefault(window.locate(item.start)[0], []).append(item)
    return places


def cannot_edit(windows: Iterable[TextWindow]) -> str:
    """Return why findings stop the run that would be edited elsewhere: they stand in texts that can only be read."""
    listed = [(window.locate(0)[0], window.kind) for window in windows]
    fields = ", ".join(dict.fromkeys(named_field(place) for place, _ in listed))
    kinds = dict.fromkeys(kind for _, kind in listed)
    skips = f"take {', '.join(map(repr, kinds))} out of parts= of this guard" if OF_MESSAGE not in kinds else ""
    cure = skips or "leave it out of the message"
    named = f" ({fields})" if fields else ""
    return (
        f"an id, an address or metadata{named} cannot be edited, only blocked; "
        f"to let it pass, {cure}, or set strategy='warn'; "
    )


_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z_-]{,39}")


def named_field(place: TextPlace) -> str:
    """Return the field and the keys that a text stands under; for keys that could say something, an ellipsis."""
    field, *keys = place.path or ("",)
    if keys and isinstance(keys[-1], KeyText):
        keys[-1] = "…"
    return ".".join([str(field), *(str(key) if _is_plain(key) else "…" for key in keys)])


def _is_plain(key: object) -> bool:
    """Tell whether a step of a path says nothing: a word, or a small index; keys of mappings may be any number."""
    if isinstance(key, int):
        return 0 <= key < _MOST_INDEX
    return isinstance(key, str) and _PLAIN_KEY.fullmatch(key) is not None


_MOST_INDEX = 10_000


def field_of(place: TextPlace) -> str:
    """Return the field that a text stands in: ``text``, ``arguments``, ``result`` or another one."""
    return str(place.path[0]) if place.path else ""


def listed_place(window: TextWindow, start: int) -> dict[str, Value]:
    """Return where a finding begins, as the metadata of a tripwire say it.

    Args:
        window: the window that it was found in.
        start: where it begins, in characters from the beginning of the window.
    """
    place, at = window.locate(start)
    return {
        "message_id": place.message_id,
        "part": place.part,
        "field": place.path[0] if place.path else "",
        "start": at,
    }
