"""The vectors of `TrailingAssistantGuard`: whether a message is added to a prompt that ends on an answer."""

from __future__ import annotations

from typing import Any

from penstock import MessageList, TrailingAssistantGuard, Workflow
from penstock.engine.values.model import ResponseFormat
from tests.conformance.builtin import trailing_assistant_invented
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import read, told


def run(given: Given) -> Fields:
    """Run the input step with the model and the form of the answer."""
    messages = MessageList().add(read(given.input["messages"]), source="memory")
    run = Workflow("w").then(TrailingAssistantGuard()).start_sync()
    outcome = run.process_input_step(
        messages, model=name(given.input.get("model") or ""), response_format=form(given.input)
    )
    added = [message for message in outcome.message_list if message.id not in messages]
    assert all(message in outcome.message_list.of("context") for message in added)
    return {"appended": [{"role": message.role, "text": message.text} for message in added], **told(outcome)}


def name(model: Any) -> str:
    """Return a model's name as ours have it."""
    return model if isinstance(model, str) else f"{model['provider']}/{model['model_id']}"


def form(given: Fields) -> ResponseFormat | None:
    """Return the form that the model's provider is asked for: none where another model, or the prompt, sees to it."""
    asked = given.get("structured_output")
    if asked is None or asked.get("model") or asked.get("json_prompt_injection"):
        return None
    return ResponseFormat({"type": "object", "properties": {}})


def projection(fields: Fields) -> Fields:
    """Whose messages were added; that they say something, not what."""
    added = fields.get("appended", [])
    return {**fields, "appended": [{"role": one["role"], "text": bool(one["text"])} for one in added]}


FAMILY = Family(
    files=("trailing_assistant_guard",),
    run=run,
    projections={"process_input_step": projection},
    invented=trailing_assistant_invented.rows,
)
