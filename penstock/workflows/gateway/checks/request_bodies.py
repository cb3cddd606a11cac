"""The JSON bodies of requests to models, checked whole: for products that show all of a body.

Messages, input, prompt and instructions of OpenAI's and Anthropic's APIs are read as such. All other fields
that hold text are read as data. An untouched body is given back as it came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message, TextPart
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.checks import beside
from penstock.workflows.gateway.checks.core import CheckResult, check_input
from penstock.workflows.gateway.checks.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Role
    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json, Value


@dataclass(frozen=True, slots=True)
class BodyChecked:
    """The result of a check of a body.

    Attributes:
        body: the body as the guards left it; the very same object if nothing was changed. None if it was blocked.
        blocked: the check that blocked it, or None.
        why: why it was blocked, if no guard did; empty otherwise.
    """

    body: Json | None
    blocked: CheckResult | None = None
    why: str = ""


REMOVED = "a guard has removed a field, without which the body cannot be sent"


_TEXTS = ("system", "instructions", "prompt", "input")
"""The fields that hold texts, or lists of them."""

_ROWS = ("messages", "input")
"""The fields that hold messages."""


async def check_request_body(guards: Workflow, body: Json, *, context: Json | None = None) -> BodyChecked:
    """Check the body of a request to a model.

    Raises:
        MessageError: it is malformed, or holds tokens in the place of a text.
    """
    fields = [each for each in (_field(body, name) for name in body) if each is not None]
    rest = beside.beside_of(body, [each.name for each in fields], tokens=True)
    first = [beside.as_message(rest)] if rest else []  # some guards read the last message alone, which is a user's
    messages = [*first, *(message for each in fields for message in each.messages)]
    if not messages:
        return BodyChecked(body)
    checked = await check_input(guards, messages, context=context)
    if checked.blocked:
        return BodyChecked(None, checked)
    if checked.verdict == "passed":
        return BodyChecked(body)
    changes: Json = {}
    start = len(first)
    for number, each in enumerate(fields):
        end = start + len(each.messages)
        left = each.left(checked.part(start, end, last=number == len(fields) - 1))
        if left is None:
            return BodyChecked(None, None, REMOVED)
        changes[each.name] = left
        start = end
    told = beside.left_of(checked.messages[0], rest) if rest else {}
    if told is None or told.keys() != rest.keys():
        return BodyChecked(None, None, REMOVED)
    whole: Json = {name: changes.get(name, told.get(name, value)) for name, value in body.items()}
    return BodyChecked(body if whole == body else whole)


def _field(body: Json, name: str) -> _TextField | _RowField | None:
    """Return a field of a request with the messages in it; None if it holds none.

    Raises:
        MessageError: it is malformed, or holds tokens.
    """
    value: Value = body[name]
    if value is None or name not in {*_TEXTS, *_ROWS}:
        return None
    texts = [value] if isinstance(value, str) else list(value) if is_array(value) else None
    if name in _TEXTS and texts is not None and all(isinstance(text, str) for text in texts):
        return _TextField(name, value, texts)
    if name == "system":
        return _RowField(name, [{"role": "system", "content": value}], "anthropic", inner=True)
    if name in _ROWS and texts is not None and all(map(is_object, texts)):
        return _RowField(name, texts, "openai-responses" if name == "input" else None)
    if name == "prompt" and is_object(value):  # a prompt that the provider has stored: its variables are data
        return None
    raise MessageError(name, "expected texts or messages; guards cannot read lists of tokens")


class _TextField:
    """A field that holds a text, or a list of them."""

    def __init__(self, name: str, value: Value, texts: Sequence[str]) -> None:
        self.name = name
        self._value = value
        role: Role = "system" if name in ("system", "instructions") else "user"
        self.messages = [Message(role, (TextPart(text),), from_client=True) for text in texts]

    def left(self, checked: CheckResult) -> Value:
        """Return the field as a check has left it; None if a text of it was removed."""
        if None in checked.messages:
            return None
        texts = [message.text for message in checked.messages if message is not None]
        return texts if is_array(self._value) else texts[0]


class _RowField:
    """A field that holds messages; ``inner``: it is the content of one.

    Raises:
        MessageError: one is malformed.
    """

    def __init__(self, name: str, rows: Value, format: str | None, *, inner: bool = False) -> None:  # noqa: A002
        self.name = name
        self._rows = Rows(rows, name, format)
        self._inner = inner
        self.messages = self._rows.messages

    def left(self, checked: CheckResult) -> Value:
        """Return the field as a check has left it; None if nothing is left of a content."""
        left = self._rows.left(checked)
        if not self._inner:
            return left
        return left[0].get("content") if len(left) == 1 else None
