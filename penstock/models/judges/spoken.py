"""Find the verdict in a model's answer: the last JSON object of it, behind reasoning, quotations and drafts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import BaseModel, model_validator
from pydantic_core import PydanticCustomError

from penstock.models.judges.lenient_json import UnreadableError, begin_of_object, object_at

if TYPE_CHECKING:
    from typing import Self

    from penstock.engine.values.frozen import Value

_WORDS = r"(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|seed:think)"
_BEGINS = re.compile(
    rf"<{_WORDS}>|\[think\]|◁think▷|<\|begin_of_thought\|>|<\|channel\|>(?:analysis|commentary)", re.IGNORECASE
)
_ENDS = re.compile(
    rf"</{_WORDS}>|\[/think\]|◁/think▷|<\|end_of_thought\|>|<\|channel\|>final(?:<\|message\|>)?", re.IGNORECASE
)
_BEHIND = re.compile(r"(?:[\s`]|~~~|</(?:answer|json|output|response|result|s|verdict)>|<\|\w+\|>)*+", re.IGNORECASE)
"""What may follow a verdict at once: the end of a code block or of an element, and special tokens."""

NOTHING = "verdict_says_nothing"
"""The type of the error for a verdict of which every field is null or blank."""


class SpokenVerdict(BaseModel):
    """A verdict that says something: not all of its fields are null or blank.

    A model that answers null everywhere has not judged. Ask for an empty list where nothing is found.
    """

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if all(_is_nothing(getattr(self, name)) for name in type(self).model_fields):
            raise PydanticCustomError(NOTHING, "every field is null, which says nothing")
        return self


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def spoken_objects(text: str) -> list[dict[str, Value]]:
    """Return the JSON objects of an answer, in order, without those in reasoning between tags.

    Raises:
        UnreadableError: an object cannot be read, reasoning does not end, or a sentence goes on behind the last object:
            it is a quotation then, and no verdict.
    """
    found: list[dict[str, Value]] = []
    at, end = 0, 0
    ends = [match.end() for match in _ENDS.finditer(text)]
    thought = _BEGINS.search(text)
    while True:
        begin = begin_of_object(text, at)
        if thought is not None and (begin is None or thought.start() < begin):
            if not ends or ends[-1] <= thought.start():
                raise UnreadableError("it ends within its reasoning")
            at = end = ends[-1]
            thought = _BEGINS.search(text, at)
            continue
        if begin is None:
            break
        value, at = object_at(text, begin)
        end = at
        found.append(value)
        thought = _BEGINS.search(text, at) if thought is not None and thought.start() < at else thought
    if found and not _may_follow(text, end):
        raise UnreadableError("a sentence goes on behind its last JSON object, which must stand by itself")
    return found


def _may_follow(text: str, at: int) -> bool:
    """Return whether the text behind a verdict leaves it one: nothing, or sentences of their own."""
    behind = _BEHIND.match(text, at)
    rest = text[at if behind is None else behind.end() :]
    return not rest or (
        len(rest) < len(text) - at and (rest[0] in "#*-" or (rest[0].isalpha() and not rest[0].islower()))
    )
