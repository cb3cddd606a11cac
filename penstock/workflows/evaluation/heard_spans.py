"""`HeardSpans`: the findings of guards, with places and types: records of runs have the edits alone."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from penstock.detection.spans import Span
from penstock.engine.graph.nodes import Branch, Dag, Sequence, Step, resolve
from penstock.engine.text_guards.reporting import GuardReporter
from penstock.engine.workflow import Workflow
from penstock.workflows.streamed import ANSWER

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.graph.nodes import Node
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.tripwire import Record
    from penstock.processors.guards.detection import Detection

OPTION = "on_detection"

MOST_WAITING = 1_000
"""Of how many messages the spans are kept until they are asked for."""


class HeardSpans:
    """The spans that guards have found in rows that are a text. Lives as long as one process checks rows.

    It belongs to a copy of a workflow, whose guards tell it. A guard that tells nobody (one of another package) counts
    by the edits that it makes, whose type is the name of its processor.
    """

    def __init__(self) -> None:
        self._found: dict[str, dict[str, list[Span]]] = {}

    def listening(self, workflow: Workflow) -> Workflow:
        """Return a copy of a workflow whose guards report their findings here. The workflow itself stays as it is."""
        return Workflow(workflow.name, cast("Sequence", self._mapped(resolve(workflow.root))))

    def taken(self, message_id: str, records: tuple[Record, ...]) -> dict[str, tuple[Span, ...]]:
        """Return the findings of each step in a text, by the path of the step, and forget them.

        Positions are those of the text before any step: the edits of earlier steps are counted back.
        """
        heard = self._found.pop(message_id, {})
        earlier: list[tuple[Edit, ...]] = []
        spans: dict[str, tuple[Span, ...]] = {}
        seen: set[str] = set()
        for record in records:
            if record.step in seen:  # a later stage asks a step again about an answer that it has judged as it streamed
                continue
            seen.add(record.step)
            edits = tuple(edit for place, edit in record.edits if place.message_id in (message_id, ""))
            found = heard.get(record.step)
            if found is None and record.step not in heard:
                found = [Span(edit.start, edit.end, record.processor_id) for edit in edits if edit.hidden]
            if found:
                spans[record.step] = tuple(dict.fromkeys(_before(span, earlier) for span in found))
            if edits and not record.shadow:
                earlier.append(edits)
        return spans

    def _mapped(self, node: Node) -> Node:
        if isinstance(node, Step):
            return self._heard(node)
        if isinstance(node, Branch):
            arms = tuple(replace(arm, node=self._mapped(arm.node)) for arm in node.arms)
            otherwise = None if node.otherwise is None else self._mapped(node.otherwise)
            return replace(node, arms=arms, otherwise=otherwise)
        if isinstance(node, Dag):
            return replace(node, members=tuple(replace(each, node=self._mapped(each.node)) for each in node.members))
        return replace(node, nodes=tuple(self._mapped(each) for each in node.nodes))

    def _heard(self, step: Step) -> Step:
        action: object = getattr(step.processor, "action", None)
        reporter: object = getattr(action, "reporter", None)
        if not isinstance(reporter, GuardReporter):
            return step
        guard, telling = copy(step.processor), copy(action)
        told = {**reporter.callbacks, OPTION: self._listener(step.path, reporter.callbacks.get(OPTION))}
        vars(telling)["reporter"] = replace(reporter, callbacks=told)
        vars(guard)["action"] = telling  # a guard refuses that its parts are set
        return replace(step, processor=guard)

    def _listener(self, path: str, own: Callable[[Detection], object] | None) -> Callable[[Detection], object]:
        def hear(detection: Detection) -> object:
            if detection.field in ("text", "result"):
                if len(self._found) > MOST_WAITING:  # conversations, of which nobody asks
                    del self._found[next(iter(self._found))]
                self._found.setdefault(detection.message_id or ANSWER.get(), {}).setdefault(path, []).extend(
                    detection.spans
                )
            return None if own is None else own(detection)

        return hear


def _before(span: Span, edits: list[tuple[Edit, ...]]) -> Span:
    """Return where a span stood before edits, the last of them first."""
    start, end = span.start, span.end
    for made in reversed(edits):
        start, end = _back(start, made, at_end=False), _back(end, made, at_end=True)
    return span._replace(start=start, end=end)


def _back(position: int, edits: tuple[Edit, ...], *, at_end: bool) -> int:
    """Return where a position stood before edits; one within a replacement is at the edge of the replaced text."""
    shift = 0
    for edit in edits:
        begins = edit.start + shift
        ends = begins + len(edit.text)
        if position < begins or (position == begins and at_end):
            break
        if position < ends or (position == ends and at_end):
            return edit.end if at_end else edit.start
        shift += len(edit.text) - (edit.end - edit.start)
    return position - shift
