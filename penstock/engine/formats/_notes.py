"""What a format said beyond Penstock's fields, kept in ``metadata`` under the format's name; it knows no format.

Under that name stand *notes* (how the wire form was shaped, when that was not the usual way) and, under ``extra`` and
``inner``, keys that Penstock does not know, of the object itself and of the object nested in it. Notes may come from
outside (a client sends ``metadata``), so whoever reads them trusts none: unknown keys never stand in for known ones,
and a note that makes no sense is passed over. No text that a guard could have redacted is ever kept in a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.formats.wire import Json, Value, is_array, is_empty, is_object
from penstock.engine.values.frozen import thaw

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.engine.values.messages import Message, Part


def unknown(item: Json, known: Collection[str], handled: Collection[str] = ()) -> Json:
    """Return what stands under keys that are not known, and what is known but says nothing, save for those handled."""
    return {key: value for key, value in item.items() if key not in handled and (key not in known or is_empty(value))}


def kept(fmt: str, notes: Json, metadata: Mapping[str, Value] | None = None) -> Json:
    """Return the metadata with the notes for a format, without those that say nothing."""
    found = telling(notes)
    return {**(metadata or {}), fmt: found} if found else dict(metadata or {})


def telling(notes: Json) -> Json:
    """Return the notes without those that say nothing."""
    return {key: value for key, value in notes.items() if value is not None and value != {}}


def notes_of(value: Message | Part, fmt: str) -> Json:
    """Return the notes for a format, empty if there are none."""
    found = value.metadata.get(fmt)
    return thaw(found) if is_object(found) else {}


def foreign(value: Message | Part, fmt: str) -> Json:
    """Return the metadata without the format's own notes."""
    return {key: thaw(item) for key, item in value.metadata.items() if key != fmt}


def restored(body: Json, notes: Json, known: Collection[str], key: str = "extra") -> Json:
    """Return a wire object with the unknown keys laid under it; an unknown key never says what a known one could."""
    found = notes.get(key)
    if not is_object(found):
        return body
    return {**{name: value for name, value in found.items() if name not in known or is_empty(value)}, **body}


def array_in(notes: Json, key: str) -> Sequence[Value]:
    """Return the array under a key of the notes, empty if there is none."""
    found = notes.get(key)
    return found if is_array(found) else ()
