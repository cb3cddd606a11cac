"""The vectors of `ProviderHistoryCompat`: what it makes of prompts before calls, of conversations after errors."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from typing import Any

from penstock import (
    Message,
    MessageList,
    ProviderHistoryCompat,
    Retry,
    Workflow,
    dump_messages,
    parse_messages,
    processor,
)
from penstock.engine.processor.context import APIErrorContext
from tests.conformance.builtin import provider_history_invented
from tests.conformance.builtin.errors_given import raised
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import read, told, write


def run(given: Given) -> Fields:
    """Run the stage of the method on the prompt or the conversation."""
    return on_error(given.input) if given.method == "process_api_error" else on_prompt(given.input)


# Prompts


def on_prompt(given: Fields) -> Fields:
    """Run the request stage; a prompt's messages are those of the conversation here, so what is stored counts."""
    items = parse_messages(given["prompt"], "ai-sdk-model")
    messages = MessageList().add([stamped(item, given.get("stored") or []) for item in items], source="input")
    outcome = Workflow("w").then(ProviderHistoryCompat()).start_sync().process_llm_request(messages, model=named(given))
    changed = outcome.message_list != messages
    shown = dump_messages(outcome.message_list, "ai-sdk-model")
    return {"changed": changed, **({"prompt": shown} if changed else {}), **told(outcome)}


def stamped(message: Message, stored: list[Any]) -> Message:
    """Return a prompt's message with the stamp of the stored one from which it was made: they share a signature."""
    for row in stored:
        stamp = row["content"].get("metadata", {}).get("provider")
        if stamp and signatures(row["content"]["parts"]) & signatures([dict(p.metadata) for p in message.parts]):
            return message.with_metadata(provider=stamp)
    return message


def signatures(parts: Any) -> set[str]:
    """Return the signatures in parts."""
    return set(re.findall(r'"signature": "([^"]+)"', json.dumps(parts, default=dict)))


def named(given: Fields) -> Any:
    """Return a model's name as ours have it, of a name, of provider and model, or of several."""

    def name(model: Any) -> Any:
        if isinstance(model, dict) and "provider" in model:
            return f"{model['provider']}/{model.get('modelId', model.get('model_id', ''))}"
        if isinstance(model, dict) and "model" in model:
            return name(model["model"])
        return model if isinstance(model, str) else None

    model = given.get("model")
    return [name(each) for each in model] if isinstance(model, list) else name(model)


# Errors


def on_error(given: Fields) -> Fields:
    """Run the error stage, behind somebody who has had the call made again as often as the row says."""

    @processor("process_api_error", id="again")
    def again(ctx: APIErrorContext) -> Retry | None:
        return Retry() if isinstance(ctx.error, TimeoutError) else None

    run = Workflow("w").then(again).then(ProviderHistoryCompat()).start_sync()
    run.process_input(MessageList().add(read(given["messages"]), source="memory"))
    for _ in range(given.get("retry_count", 0)):
        run.process_api_error(TimeoutError())
    outcome = run.process_api_error(raised(given["error"]))
    messages = [{"id": row["id"], "parts": row["content"]["parts"]} for row in write(outcome.message_list)]
    return {"result": {"retry": True} if outcome.retry else None, "messages": messages, **told(outcome)}


def projection(fields: Fields) -> Fields:
    """All as it is; of a prompt that is not changed only that."""
    if fields.get("changed") is False:
        fields.pop("prompt", None)
    return fields


# What is better on purpose


def no_message_is_left_empty(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """A message that is left with nothing goes."""
    prompt = expected.get("prompt") or []
    kept = [message for message in prompt if message["content"] != []]
    return {**expected, "prompt": kept} if kept != prompt else None


def different_ids_stay_different(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A renamed call has a hash of its id behind its new name."""
    if not expected.get("result") or "tool_use" not in json.dumps(given["error"]):
        return None
    new = copy.deepcopy(expected)
    for old, message in zip(given["messages"], new["messages"], strict=True):
        for part, renamed in zip(old["content"]["parts"], message["parts"], strict=True):
            id = part.get("toolInvocation", {}).get("toolCallId", "")
            if re.search(r"[^\w-]", id, re.ASCII):
                digest = hashlib.sha256(id.encode()).hexdigest()[:8]
                renamed["toolInvocation"]["toolCallId"] = re.sub(r"[^\w-]", "_", id, flags=re.ASCII)[:55] + f"_{digest}"
    return new


FAMILY = Family(
    files=("provider_history_compat",),
    run=run,
    projections={"process_llm_request": projection, "process_api_error": projection},
    rules=(no_message_is_left_empty, different_ids_stay_different),
    invented=provider_history_invented.rows,
)
