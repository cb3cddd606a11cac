"""The vectors of `LanguageDetector`: what it makes of a judge's verdict. Its embedded detector is left out of it."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import anyio

from penstock import LanguageDetector, MessageList, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from penstock.testing import ScriptedModel
from tests.conformance.builtin import language_invented, language_rules
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.regex_filter import Logs
from tests.conformance.builtin.shapes import naming, options_named, read, told, write

OPTIONS = (
    "target_languages", "threshold", "strategy", "preserve_original", "min_text_length", "include_detection_details",
    "last_message_only", "instructions",
)  # fmt: skip
DEFAULTS = {
    "target_languages": ["English", "en"],
    "threshold": 0.7,
    "strategy": "detect",
    "preserve_original": True,
    "min_text_length": 10,
    "include_detection_details": False,
    "last_message_only": False,
    "error_strategy": "warn",
}
FENCED = re.compile(r"<content-1 (\w+)>\n(.*)\n</content-1 \1>", re.DOTALL)
CODE = re.compile(r"\(([a-z]{2,3}(?:-[A-Za-z]+)?)\)")
CONFIDENCE = re.compile(r"confidence (\d\.\d\d)")


def run(given: Given) -> Fields:
    """Run the input stage, or ask once to see how; ``error_strategy`` is the step's policy here."""
    model = ScriptedModel([turn(row) for row in given.input.get("model_script", [{}])], repeat_last=True)
    options = {name: value for name, value in given.options.items() if name in OPTIONS}
    try:
        guard = LanguageDetector(model, embedded=False, retries=0, **options)
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {}
    policy: Any = "allow" if given.options["error_strategy"] == "warn" else "block"
    workflow = Workflow("w").then(guard, on_error=policy)
    if given.method == "verdict_schema":
        anyio.run(workflow.check, "What language is this text written in? " * (given.options["min_text_length"] + 1))
        return asked(model)
    with Lines() as logs:
        outcome = anyio.run(
            workflow.start().process_input, MessageList().add(read(given.input["messages"]), source="input")
        )
    texts = [found[2] for request in model.requests if (found := FENCED.search(str(request.messages[-1].text)))]
    fields = {"analyzed": texts, "llm_calls": len(model.requests), "logs": logs.rows, **told(outcome)}
    return fields if outcome.blocked else {**fields, "messages": write(outcome.message_list)}


def turn(row: Fields) -> Fields:
    """Return what the model says, as a turn."""
    if "error" in row:
        return {"error": row["error"]}
    return {"text": row["text"] if "text" in row else json.dumps(row.get("object", {}))}


def asked(model: ScriptedModel) -> Fields:
    """Return the form that a judge was asked for, and how."""
    request = model.requests[0]
    assert request.response_format is not None
    translates = "translate" in " ".join(str(message.text) for message in request.messages)
    schema = thaw(request.response_format.schema)
    return {"json_schema": schema, "temperature": request.settings["temperature"], "asks_translation": translates}


class Lines(Logs):
    """Collects what the package logs of languages, at every level."""

    def __init__(self) -> None:
        super().__init__()
        self.setLevel(logging.INFO)

    def __enter__(self) -> Any:
        """Listen to lines of information, too."""
        self.before = self.logger.level
        self.logger.setLevel(logging.INFO)
        return super().__enter__()

    def __exit__(self, *what: object) -> None:
        """Leave the level as it was."""
        self.logger.setLevel(self.before)
        super().__exit__(*what)


def projection(fields: Fields) -> Fields:
    """Of messages the parts and the metadata; of log lines and verdicts the languages they name, of errors the options.

    By whom a language was told (``source``) is our own addition; what a run logs that ends in a verdict is no matter.
    """
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tripwire" in fields:
        fields["tripwire"] = verdict(fields["tripwire"])
        fields.pop("logs", None)
    if "logs" in fields:
        lines = [(line["level"], code) for line in fields["logs"] for code in CODE.findall(line["text"])]
        fields["logs"] = sorted(lines)
    if "messages" in fields:
        fields["messages"] = [shown(message) for message in fields["messages"]]
    return fields


def verdict(tripwire: Fields) -> Fields:
    """Return the languages that a verdict names, and how sure it says that it is."""
    reason, metadata = tripwire["reason"], tripwire.get("metadata", {})
    sure = metadata.get("confidence")
    stated = CONFIDENCE.findall(reason) or ([] if sure is None else [f"{sure:.2f}"])
    return {"languages": CODE.findall(reason), "confidence": stated, "retry": bool(tripwire.get("retry"))}


def shown(message: Fields) -> Fields:
    """Return a stored message without the flattened copy of its text."""
    content = message["content"]
    metadata = {**content.get("metadata", {})}
    if "language_detection" in metadata:
        detection = metadata["language_detection"]
        metadata["language_detection"] = {name: value for name, value in detection.items() if name != "source"}
    return {"id": message["id"], "role": message["role"], "parts": content["parts"], "metadata": metadata}


def schema(fields: Fields) -> Fields:
    """Return the form without its descriptions."""
    if "error" in fields:
        return projection(fields)
    fields["json_schema"] = {name: it for name, it in fields["json_schema"].items() if name != "description"}
    return fields


FAMILY = Family(
    files=("language_detector",),
    run=run,
    projections={"process_input": projection, "verdict_schema": schema, "construct": naming(*OPTIONS)},
    rules=language_rules.RULES,
    neutral={("process_input", "target"): "how a prompt spells the targets"},
    defaults=DEFAULTS,
    invented=language_invented.rows,
)
