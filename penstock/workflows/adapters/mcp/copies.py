"""Results whose text and ``structuredContent`` say the same: how the text is written anew after a guard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import equal, is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engine.values.frozen import Value
    from penstock.formats.wire import Json


def only_text(content: object) -> str | None:
    """Return the text of content that is one block of text and nothing else."""
    if not is_items(content) or len(content) != 1:
        return None
    block = content[0]
    if not is_mapping(block) or set(block) != {"type", "text"} or block["type"] != "text":
        return None
    return block["text"] if isinstance(block["text"], str) else None


def copies_of(result: Json) -> Callable[[Value, Json], list[Json]] | None:
    """Return how to write the content of a result anew if it says what ``structuredContent`` says; else None."""
    content, structured = result.get("content"), result.get("structuredContent")
    texts = _texts(content) if is_items(content) else None
    if structured is None or not texts:
        return None
    if len(texts) == 1 and _says(texts[0], structured):
        return lambda value, made: _rewritten(made, [value])
    if not is_mapping(structured) or set(structured) != {"result"}:
        return None
    inner = structured["result"]
    if len(texts) == 1 and _says(texts[0], inner):
        return lambda value, made: _rewritten(made, [_inner(value)])
    if is_items(inner) and len(inner) == len(texts) and all(map(_says, texts, inner)):
        return lambda value, made: _rewritten(made, _inner(value))
    return None


def _texts(content: Iterable[Value]) -> list[str] | None:
    texts = [block.get("text") for block in content if is_mapping(block) and block.get("type") == "text"]
    return [text for text in texts if isinstance(text, str)]


def _says(text: str, value: Value) -> bool:
    return text == value or equal(_loaded(text), value)


_NOTHING = object()


def _loaded(text: str) -> Value:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _inner(value: Value) -> Value:
    return value.get("result") if is_mapping(value) else value


def _rewritten(result: Json, values: Value) -> list[Json]:
    """Return content with its texts written anew, each in the form that it had."""
    left = list(values) if is_items(values) else [values]
    made: list[Json] = []
    for block in result["content"]:
        if not is_mapping(block) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            made.append(block)
        elif left:
            made.append({**block, "text": _written(left.pop(0), block["text"])})
    return made


def _written(value: Value, form: str) -> str:
    if isinstance(value, str) and not isinstance(_loaded(form), str):
        return value
    indent = 2 if "\n" in form else None
    tight = (",", ":") if indent is None and ": " not in form and ", " not in form else None
    return json.dumps(value, indent=indent, separators=tight, ensure_ascii=False)
