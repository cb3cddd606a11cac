"""What is better on purpose about objects of answers, as pure functions; no processor is known here."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from tests.conformance.builtin.frame import Fields

NOTHING: Fields = {
    "last_object": None,
    "object_chunk_types": [],
    "output_step": "pass",
    "llm_calls": 0,
    "prompt_sections": None,
    "logs": [],
}
ATTEMPTS = 2


def a_second_model_is_an_option(options: Fields, given: Fields, _expected: Fields) -> Fields | None:
    """Without one, the answer itself is read."""
    made = given["method"] == "construct" and "schema" in options and "model" not in options
    fallback = options["error_strategy"] == "fallback" and "fallback_value" not in options
    return {"constructed": True} if made and not fallback else None


def a_fallback_is_checked_when_it_is_built(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """There must be one, and it must be what the schema says."""
    if options["error_strategy"] != "fallback" or "schema" not in options:
        return None
    there = "fallback_value" in options and fits(options, options["fallback_value"])
    return None if there else {"error": "fallback_value"}


def a_step_that_calls_tools_is_not_the_answer(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """No second model is asked before the last step."""
    if "output_step" not in expected or finish(given) != "tool-calls":
        return None
    return {**expected, **NOTHING}


def a_stream_that_ends_has_ended(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """With or without a chunk that says so."""
    if "output_step" not in expected or any(row["type"] == "finish" for row in given["chunks"]):
        return None
    said = given["model_script"][0]
    data = reply(said)
    if not text_of(given) or not fits(options, data):
        return None
    sent = {"type": "object-result", "object": data, "metadata": {}}
    prompt = f"# Answer\n{text_of(given)}"
    return {**expected, "last_object": sent, "object_chunk_types": ["object-result"], "llm_calls": 1,
            "prompt_sections": prompt}  # fmt: skip


def an_answer_that_is_the_object_needs_no_model(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """It is read from the text first."""
    data = parsed(text_of(given))
    if "output_step" not in expected or finish(given) == "tool-calls" or not fits(options, data):
        return None
    sent = {"type": "object-result", "object": data, "metadata": {}}
    return {**expected, **NOTHING, "last_object": sent, "object_chunk_types": ["object-result"]}


def what_does_not_fit_is_asked_for_again(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Once more, and the model is told what was wrong; what fits then is the object."""
    if not expected.get("llm_calls"):
        return None
    script = given["model_script"]
    said = [script[min(attempt, len(script) - 1)] for attempt in range(ATTEMPTS)]
    if "error" in said[0] or fits(options, reply(said[0])):
        return None
    new = {**expected, "llm_calls": ATTEMPTS}
    if "error" in said[1] or not fits(options, reply(said[1])):
        return new
    sent = {"type": "object-result", "object": reply(said[1]), "metadata": {}}
    return {**new, "last_object": sent, "object_chunk_types": ["object-result"], "output_step": "pass", "logs": []}


def nothing_is_sent_before_it_fits(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """One chunk with the whole object, or none."""
    types = expected.get("object_chunk_types", [])
    last = expected.get("last_object")
    if "object" not in types:
        return None
    whole = last if last is not None and last["type"] == "object-result" else None
    return {**expected, "last_object": whole, "object_chunk_types": [kind for kind in types if kind != "object"]}


def a_verdict_is_no_log_line(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """It is told to the caller, and stands in the record."""
    return {**expected, "logs": []} if isinstance(expected.get("output_step"), dict) else None


# What the rules share


def fits(options: Fields, data: Any) -> bool:
    """Tell whether data are as the schema says; None is no object."""
    return data is not None and Draft202012Validator(options["schema"]).is_valid(data)


def parsed(text: str) -> Any:
    """Return what a text is as JSON; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def reply(said: Fields) -> Any:
    """Return what a turn of the script says as an object."""
    return parsed(said["text"]) if "text" in said else said.get("object")


def text_of(given: Fields) -> str:
    """Return the text that was streamed."""
    return "".join(row["payload"]["text"] for row in given.get("chunks", []) if row["type"] == "text-delta")


def finish(given: Fields) -> str | None:
    """Return why the answer ended."""
    ends = [row["payload"].get("finishReason") for row in given.get("chunks", []) if row["type"] == "finish"]
    return ends[0] if ends else None


RULES = (
    a_second_model_is_an_option,
    a_fallback_is_checked_when_it_is_built,
    a_step_that_calls_tools_is_not_the_answer,
    a_stream_that_ends_has_ended,
    an_answer_that_is_the_object_needs_no_model,
    what_does_not_fit_is_asked_for_again,
    nothing_is_sent_before_it_fits,
    a_verdict_is_no_log_line,
)
