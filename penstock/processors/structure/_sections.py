"""What a second model is shown of a run, in sections: thoughts, calls, results, answer. It knows messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import ReasoningPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message


def sections(said: Sequence[Message], most: int) -> str:
    """Return what a model said and did in a run, as the guards left it; sections that would be empty are left out.

    Args:
        said: its messages and those of its tools, in order.
        most: how many characters it may have; what came before the answer goes first. Empty if the answer is longer.
    """
    parts = [part for message in said for part in message.parts]
    tools = [part for part in parts if isinstance(part, ToolPart)]
    answer = _section("Answer", [message.text for message in said if message.role == "assistant"])
    before = [
        *_section("Thoughts", [part.text for part in parts if isinstance(part, ReasoningPart)]),
        *_section("Calls to tools", _calls(tools)),
        *_section("Results of tools", _results(tools)),
    ]
    whole = "\n\n".join([*before, *answer])
    if len(whole) <= most:
        return whole
    alone = "".join(answer)
    return alone if len(alone) <= most else ""


def _section(title: str, texts: Iterable[str]) -> list[str]:
    told = "\n".join(text for text in texts if text.strip())
    return [f"# {title}\n{told}"] if told else []


def _calls(tools: Sequence[ToolPart]) -> Iterator[str]:
    """Yield each call once, though its result may repeat it."""
    seen: set[str] = set()
    for part in tools:
        if not part.call_id or part.call_id not in seen:
            seen.add(part.call_id)
            yield f"{part.name}: {_written(part.arguments)}"


def _results(tools: Sequence[ToolPart]) -> Iterator[str]:
    for part in tools:
        if part.state == "result":
            yield f"{part.name}: {_written(part.result)}"
        elif part.state == "error":
            yield f"{part.name} failed: {part.error}"


def _written(value: Value) -> str:
    return json.dumps(thaw(value), ensure_ascii=False)
