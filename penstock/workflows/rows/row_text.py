"""`row_text`: the text of a row, as lists of rows show it to people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.engine.values.frozen import is_items
from penstock.workflows.rows.reading import BODIES, COLUMNS, is_object

if TYPE_CHECKING:
    from penstock.workflows.rows.reading import Columns, InputRow


def row_text(row: InputRow, columns: Columns = COLUMNS) -> str:
    """Return the text of a row for people: the text that is checked, a conversation as a transcript, else JSON.

    A row that cannot be read is shown as it stands in its file. Guards never read this text.
    """
    if row.problem is not None:
        return "" if row.raw is None else row.raw.decode("utf-8", "replace")
    value = row.value
    if is_object(value):
        names = BODIES if columns.text is None else (columns.text,)
        value = next((value[name] for name in names if value.get(name) is not None), value)
    if isinstance(value, str):
        return value
    items = value if is_items(value) else ()
    if items and all(map(is_object, items)) and any("role" in each for each in items):
        return "\n".join(f"{each.get('role', 'user')}: {_content_text(each)}" for each in items)
    return _content_text({"content": value})


def _content_text(message: dict[str, Any]) -> str:
    """Return the content of a message: its texts, or all of it as JSON if it has other parts."""
    content: object = message.get("content", message.get("parts"))
    if isinstance(content, str):
        return content
    parts = content if is_items(content) else ()
    if parts and all(is_object(part) and isinstance(part.get("text"), str) for part in parts):
        return "".join(part["text"] for part in parts)
    if content is None:
        content = {name: each for name, each in message.items() if name != "role"}
    return json.dumps(content, ensure_ascii=False, default=str)
