"""Fact keys of the structured object, in a module of their own: agents import them without loading the processor."""

from __future__ import annotations

from typing import Literal, NamedTuple

from penstock.engine.values.facts import Key

OBJECT = Key[object]("object")
"""The object of the answer: validated, of the requested type, and parsed from what the guards left."""

EDITED = Key[tuple[str, ...] | None]("object.edited")
"""Whether guards changed the answer that holds the object: the places where 0 stands for a hidden number, often none.

None if no guard changed it.
"""


class ObjectPlace(NamedTuple):
    """The place of the current answer's object until the end of the run.

    Attributes:
        kind: ``answer``: in the text of the answer; ``beside``: in a message of its own, for the guards to see;
            ``fallback``: there is no object, and ``fallback_value`` is used; ``none``: there is no object.
        message_id: the id of the message that holds it.
        parts: the number of text parts of that message, if ``kind`` is ``beside``.
    """

    kind: Literal["answer", "beside", "fallback", "none"]
    message_id: str = ""
    parts: int = 0


NO_OBJECT = ObjectPlace("none")


def place_key(processor_id: str) -> Key[ObjectPlace]:
    """Return the key under which a processor stores the place."""
    return Key(f"{processor_id}.draft")
