"""Contents both ways: through the JSON of Google's API, which keeps unknown fields."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from google.genai import types

from penstock.formats import google as wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json

_ID = "penstock-"
"""How the ids of calls begin that the model gave none; the model does not get them back."""


def read_contents(contents: Iterable[types.Content], *, ids: bool = False) -> list[Message]:
    """Return contents as messages; with ``ids``, calls that the model gave no id get one."""
    items = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents]
    for part in [part for item in items for part in item.get("parts", ())] if ids else ():
        call = part.get("functionCall")
        if call is not None and not call.get("id"):  # else ADK makes one, which no stage would know
            call["id"] = f"{_ID}{uuid.uuid4().hex}"
    return list(wire.read(items))


def write_contents(messages: Iterable[Message], *, keep_ids: bool = False) -> list[types.Content]:
    """Return messages as contents; ids that `read_contents` made are left out, unless ``keep_ids``."""
    items = wire.write(messages)
    for part in [part for item in items for part in item.get("parts", ())]:
        inner: Json = part.get("functionCall") or part.get("functionResponse") or {}
        if not keep_ids and str(inner.get("id", "")).startswith(_ID):
            del inner["id"]
    return [types.Content.model_validate(item) for item in items]
