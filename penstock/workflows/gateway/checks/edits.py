"""The edits of a whole check, from those of its steps: what leads from the given texts to the texts that are left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values import edits as edit_ops
from penstock.engine.values.texts import TextPlace, editable_texts, part_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.edits import Edits
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Record


def places_of(messages: Iterable[Message | None]) -> dict[TextPlace, str]:
    """Return the texts of messages by their places."""
    return {
        TextPlace(message.id, number, path): text
        for message in messages
        if message is not None
        for number, part in enumerate(message.parts)
        for path, text in part_texts(part, editable_texts)
    }


def whole_edits(
    before: Mapping[TextPlace, str],
    after: Mapping[TextPlace, str],
    records: Sequence[Record],
    streamed: Sequence[TextPlace] = (),
) -> dict[TextPlace, Edits]:
    """Return the edits of each text that has changed, with positions in the text before.

    Steps in a row edit the text of the step before, steps in parallel edit one text. Where neither leads to the text
    that is left, there is one edit, from the first character that differs to the last one.

    Args:
        before: the texts before.
        after: the texts that are left.
        records: the records of the steps.
        streamed: the places of the texts of a stream, in order; records number them.
    """
    steps: dict[TextPlace, dict[tuple[str, str], list[edit_ops.Edit]]] = {}
    for record in records:
        for found, edit in record.edits:
            place = streamed[found.part] if not found.message_id and found.part < len(streamed) else found
            steps.setdefault(place, {}).setdefault((record.stage, record.step), []).append(edit)
    made: dict[TextPlace, Edits] = {}
    for place, text in before.items():
        now = after.get(place, "")
        if now != text:
            listed = [edit_ops.in_order(edits) for edits in steps.get(place, {}).values()]
            made[place] = _leading(text, now, listed) or _credited(text, now, records)
    return made


def _credited(before: str, after: str, records: Sequence[Record]) -> Edits:
    """Return one edit that leads from a text to another, with the step and the kind of the edit that was made there.

    Records name no keys of a tool's value, since a key may be hidden itself, so an edit of it is found by its span.
    """
    (found,) = edit_ops.difference(before, after)
    known = [edit for record in records for _, edit in record.edits]
    alike = [edit for edit in known if (edit.start, edit.end, edit.text) == (found.start, found.end, found.text)]
    inner = [edit for edit in known if edit.start <= found.start and found.end <= edit.end]
    near = alike or [edit for edit in inner if edit_ops.apply(before, (edit,)) == after]
    if near:
        return (near[0],)
    steps = {edit.step for edit in known}
    return (replace(found, step=steps.pop()),) if len(steps) == 1 else (found,)


def _leading(before: str, after: str, steps: Sequence[Edits]) -> Edits:
    """Return the edits of steps if they lead from a text to another, in parallel or in a row; none if they do not."""
    merged, conflicts = edit_ops.merge(steps)
    candidates = [] if conflicts else [merged]
    in_a_row: Edits = ()
    for edits in steps:
        in_a_row = edit_ops.compose(in_a_row, edits)
    for made in (*candidates, in_a_row):
        fits = not made or made[-1].end <= len(before)
        if fits and edit_ops.apply(before, made) == after:
            return made
    return ()
