"""What is found out about the object of an answer, as facts; it knows no processor."""

from __future__ import annotations

from typing import Literal, NamedTuple

from penstock.engine.values.facts import Key

OBJECT: Key[object] = Key("object")
"""The object of the answer: validated, of the type that was asked for, made of what the guards left."""


class Draft(NamedTuple):
    """Where the object of the answer at hand stands until the run's end.

    Attributes:
        kind: ``answer``: in the text of the answer itself; ``beside``: in a message of its own, for the guards to see;
            ``fallback``: there is none, and the value set for that case counts; ``none``: there is none.
        message_id: the message that it stands in.
        parts: into how many parts it is written there, if it stands beside.
    """

    kind: Literal["answer", "beside", "fallback", "none"]
    message_id: str = ""
    parts: int = 0


NO_DRAFT = Draft("none")


def draft_key(processor_id: str) -> Key[Draft]:
    """Return the key of a processor's draft."""
    return Key(f"{processor_id}.draft")
