"""Blocks of content, and fields of a provider: where texts stand in them, and what stands beside."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import to_jsonable_python

from penstock.engine.formats.wire import has_text, is_array, is_object
from penstock.engine.values.frozen import freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.messages import ToolPart


@dataclass(frozen=True)
class TextPlace:
    """Where a text stands in the blocks of LangChain's messages.

    Attributes:
        block: the type of the block.
        key: the key that holds the text, or the list of texts.
        index: the index of the block in the content.
        number: the index of the text in that list; None where the key holds the text.
    """

    block: str
    key: str
    index: Any
    number: Any = None

    @property
    def id(self) -> str:
        """The id of the text's chunks."""
        return f"{self.block}-{self.index}" if self.number is None else f"{self.block}-{self.index}-{self.number}"

    def holding(self, text: str) -> dict[str, Any]:
        """Return a block with a piece of the text."""
        listed = [{"type": "summary_text", "text": text, "index": self.number}]
        return {"type": self.block, self.key: text if self.number is None else listed, "index": self.index}


def text_places(block: Any, number: int) -> list[tuple[str, TextPlace, str]]:
    """Return the kind, the place and the text of each text in a block; none for blocks of other kinds."""
    if not isinstance(block, dict):
        return []
    given = cast("dict[str, Any]", block)
    kind, index = given.get("type"), given.get("index", number)
    if kind == "text" and isinstance(given.get("text"), str):
        return [("text", TextPlace("text", "text", index), given["text"])]
    for name in ("thinking", "reasoning"):
        if kind == name and isinstance(given.get(name), str):
            return [("reasoning", TextPlace(name, name, index), given[name])]
    listed: Sequence[Any] = given["summary"] if kind == "reasoning" and is_array(given.get("summary")) else ()
    return [
        ("reasoning", TextPlace("reasoning", "summary", index, one.get("index", place)), one["text"])
        for place, one in enumerate(listed)
        if is_object(one) and isinstance(one.get("text"), str)
    ]


def listed(content: str | list[Any]) -> list[Any]:
    """Return a content as a list of texts and blocks."""
    return ([content] if content else []) if isinstance(content, str) else content


def is_other(block: Any) -> bool:
    """Return whether a block is neither a text, nor sealed reasoning, nor a call that ``tool_calls`` repeats."""
    known = text_places(block, 0) or is_sealed(block)
    return is_object(block) and not known and block.get("type") not in CALL_BLOCKS


def is_sealed(block: Any) -> bool:
    """Return whether a block is reasoning that its provider alone can read."""
    given: Mapping[str, Any] = block if is_object(block) else {}
    reasons = given.get("type") in ("thinking", "reasoning", "redacted_thinking")
    return reasons and given.keys() <= {"type", "index", "data", "summary", *SIGNS} and not given.get("summary")


SIGNS = ("signature", "id", "encrypted_content", "extras")


def beside(block: Any) -> dict[str, Any]:
    """Return what else stands in a block with a text and holds texts, such as citations."""
    places = text_places(block, 0)
    if not places:
        return {}
    known = {"type", "index", places[0][1].key, *SIGNS}
    return {name: item for name, item in cast("dict[str, Any]", block).items() if name not in known and has_text(item)}


def repeats(block: Mapping[str, Any], calls: Iterable[ToolPart]) -> bool:
    """Return whether a block repeats one of these calls and says nothing else."""
    call = next((call for call in calls if call.call_id == (block.get("call_id") or block.get("id"))), None)
    if call is None or block.get("name", call.name) != call.name or not block.keys() <= _KEYS_OF_CALLS:
        return False
    said = [block[name] for name in _ARGUMENTS if block.get(name)]
    return all(freeze(_read_arguments(one)) == call.arguments for one in said)


def _read_arguments(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


CALL_BLOCKS = frozenset({"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta"})
"""The blocks that repeat calls of ``tool_calls``."""


_ARGUMENTS = ("input", "args", "arguments", "partial_json")


_KEYS_OF_CALLS = frozenset({"type", "index", "id", "call_id", "name", "status", *_ARGUMENTS})


REASONING_FIELD = "reasoning_content"


READ_FIELDS = frozenset({REASONING_FIELD, "tool_calls"})
"""The fields whose texts stand elsewhere, too: ``tool_calls`` are those of the message in the provider's form."""


def is_other_field(name: str, item: Any) -> bool:
    """Return whether a field of a provider may hold a text that stands nowhere else."""
    return name not in READ_FIELDS and has_text(item)


def as_json(value: Any) -> Any:
    """Return a value as JSON; objects of unknown types as text."""
    return to_jsonable_python(value, fallback=str, bytes_mode="base64")
