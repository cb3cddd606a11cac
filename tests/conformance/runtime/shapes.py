"""Values in the shapes of the oracle: messages, prompts, verdicts, errors, chunks. It plays nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock import Chunk, Message, TextPart, ToolPart
from penstock.engine import DataPart, Usage


def camel(stage: str) -> str:
    """Return a stage's name as the oracle spells it."""
    head, *rest = stage.split("_")
    return head + "".join({"llm": "LLM", "api": "API"}.get(word, word.capitalize()) for word in rest)


def shown(tripwire: Any) -> Any:
    """Return a tripwire as the oracle writes it."""
    if tripwire is None:
        return None
    fields = {"reason": tripwire.reason, "retry": tripwire.retry, "processorId": tripwire.processor_id}
    metadata = tripwire.metadata
    return {**fields, "metadata": dict(metadata) if isinstance(metadata, Mapping) else metadata}


def told_error(error: BaseException) -> dict[str, Any]:
    """Return what an error tells a caller: whose it is, where, and what the original was."""
    cause = error.__cause__
    return {
        "error": type(error).__name__,
        "processor": getattr(error, "processor_id", None),
        "stage": getattr(error, "stage", None),
        "cause": None if cause is None else f"{type(cause).__name__}: {cause}",
    }


def problem_of(error: Any) -> str:
    """Return what a model says that is wrong, without who says it."""
    problem: str = error.problem
    return problem.removeprefix("the provider says: ")


def line(message: Message) -> str:
    """Return a message as the oracle's logs write it."""
    return f"{message.role}:{message.text}"


def lines(messages: Iterable[Message]) -> list[str]:
    """Return messages as the oracle's logs write them."""
    return [line(message) for message in messages]


def entry_of(message: Message) -> dict[str, Any]:
    """Return a message as the oracle's histories write it."""
    parts: list[Any] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append(part.text)
        elif isinstance(part, ToolPart):
            result = {"result": plain(part.result)} if part.state == "result" else {}
            parts.append({"tool": part.name, "id": part.call_id, "state": part.state, **result})
        elif isinstance(part, DataPart):
            parts.append({"type": f"data-{part.name}", "data": plain(part.data)})
        else:
            parts.append({"type": part.type})
    metadata = {"metadata": plain(message.metadata)} if message.metadata else {}
    return {"role": message.role, "parts": parts, **metadata}


def prompt(messages: Iterable[Message]) -> list[Any]:
    """Return what the model is sent as the oracle writes it: answered tool calls spelled out."""
    made: list[Any] = []
    for message in messages:
        done = [part for part in message.parts if isinstance(part, ToolPart) and part.state == "result"]
        entry: dict[str, Any] = {"role": message.role, **({"text": message.text} if message.text or not done else {})}
        if done:
            entry["tool_calls"] = [{"id": p.call_id, "name": p.name, "args": plain(p.arguments)} for p in done]
        made.append(entry)
        for part in done:
            output = {"type": "json", "value": plain(part.result)}
            made.append({"role": "tool", "tool_results": [{"id": part.call_id, "name": part.name, "output": output}]})
    return made


def plain(value: Any) -> Any:
    """Return a frozen JSON value as the one that JSON would give."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def chunk_of(chunk: Chunk) -> dict[str, Any]:
    """Return a chunk as the oracle's streams write it."""
    told = chunk.payload
    if chunk.type == "tripwire":
        fields = {name: told[name] for name in ("reason", "retry", "metadata")}
        return {"type": "tripwire", "payload": plain({**fields, "processorId": told["processor_id"]})}
    made: dict[str, Any] = {"type": chunk.type, **({"text": chunk.text} if chunk.type == "text-delta" else {})}
    if chunk.type == "tool-call":
        made |= {"name": told["name"], "args": plain(told["arguments"])}
    elif chunk.type == "tool-result":
        made |= {"name": told["name"], "result": plain(told["result"])}
    elif chunk.type in ("step-finish", "finish"):
        goes_on = told.get("is_continued", told["reason"] == "retry" or None)
        made |= {"reason": told["reason"], **({} if goes_on is None else {"isContinued": goes_on})}
        if told["reason"] == "retry" and "retry_reason" in told:
            made |= {"retryReason": told["retry_reason"], "retryProcessorId": told["processor_id"]}
            made |= {"retryMetadata": plain(told["metadata"])} if told["metadata"] else {}
    elif chunk.is_data:
        made |= {"data": plain(told["data"]), **({"transient": True} if chunk.transient else {})}
    return made


def usage_of(usage: Usage | None) -> dict[str, Any]:
    """Return the tokens that something took as the oracle writes them; nothing where nobody says."""
    if usage is None or usage.input_tokens is None:
        return {}
    return {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}


def call_of(part: ToolPart) -> dict[str, Any]:
    """Return a tool call as the oracle's hooks are told of it."""
    return {"toolName": part.name, "toolCallId": part.call_id, "args": plain(part.arguments)}
