"""The JSON Schema of policy files, with which editors complete names and options; made of the constructors.

It knows the names, options, types and defaults of what Penstock has built in. It does not know whether options fit
together, what conditions read, or whether ids exist: reading the file tells that.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

from penstock.engine.processor.stages import STAGES
from penstock.tools.arguments import described
from penstock.workflows.hints import docs_of
from penstock.workflows.policies.options import (
    VARIABLE,
    Json,
    is_class_of_processors,
    list_schema,
    mapping_schema,
    option_names,
    option_shapes,
    required_names,
)
from penstock.workflows.policies.reading import VERSION
from penstock.workflows.policies.registry import PRESET, known_names, maker_of
from penstock.workflows.policies.row_tests import WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.workflows.policies.registry import Maker

_STEPS: Json = {"$ref": "#/$defs/steps"}
_TEXT: Json = {"type": "string"}
_TIME: Json = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"$ref": "#/$defs/time"}, VARIABLE]}


def policy_schema() -> Json:
    """Return the JSON Schema of policy files, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A policy file of Penstock",
        "description": "A workflow of guards for LLM agents. See docs/policies.md.",
        "type": "object",
        "required": ["penstock", "steps"],
        "additionalProperties": False,
        "properties": {
            "penstock": {"const": VERSION, "description": "The version of the format; the first key of the file."},
            "name": {**_TEXT, "description": "The name of the workflow; without it, that of the file."},
            "description": {**_TEXT, "description": "A text for readers."},
            "include": {
                **list_schema(_TEXT),
                "description": "Other policy files, whose steps run before those of this one.",
            },
            "steps": {**_STEPS, "description": "The steps, in order."},
            "profiles": {
                **mapping_schema(mapping_schema({"$ref": "#/$defs/change"})),
                "description": "What differs in development, staging or production, by the ids of steps.",
            },
            "tests": {**list_schema({"$ref": "#/$defs/test"}), "description": "Inputs, and what must happen to them."},
        },
        "$defs": _definitions(),
    }


def _definitions() -> Json:
    return {
        "variable": {"type": "string", "pattern": r"\$\{", "description": "A variable of the environment: ${NAME}."},
        "time": {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h)\s*$", "examples": ["2s", "500ms"]},
        "steps": list_schema({"$ref": "#/$defs/step"}),
        "step": {"anyOf": [_name(), {"$ref": "#/$defs/use"}, *({"$ref": f"#/$defs/{kind}"} for kind in _GROUPS)]},
        "use": _use(),
        "group": _object({"steps": _STEPS, "id": _TEXT, **_policy()}, "steps", "id"),
        "parallel": _object(
            {"parallel": _STEPS, "merge": _merge("first", "last", "sequence"), **_policy()}, "parallel"
        ),
        "branch": _object(
            {
                "branch": list_schema(
                    _object({"when": {"$ref": "#/$defs/when"}, "steps": _STEPS, "id": _TEXT}, "steps")
                ),
                "match": _words("first", "all"),
                "merge": _merge("sequence"),
                "on_error": _words("block", "raise"),
            },
            "branch",
        ),
        "dag": _object({"dag": list_schema({"$ref": "#/$defs/member"}), "merge": _merge()}, "dag"),
        "member": {
            "anyOf": [_name(), {**_use(), "properties": {**_use()["properties"], "after": _after()}}, _member()]
        },
        "when": {
            "anyOf": [{**_TEXT, "description": "An expression in CEL."}, _object({"use": _TEXT, "with": {}}, "use")]
        },
        "change": _object({"with": {"type": "object"}, "skip": {"type": "boolean"}, **_policy()}),
        "test": _test(),
        **{_key(name): _options(maker_of(name)) for name in _names()},
    }


def _key(name: str) -> str:
    return f"with-{name.replace(':', '-')}"


def _words(*words: str) -> Json:
    return {"anyOf": [{"enum": list(words)}, VARIABLE]}


_GROUPS = ("group", "parallel", "branch", "dag")


def _names() -> list[str]:
    """Return the names of the built-in processors and presets."""
    return [name for name in known_names() if ":" not in name or name.startswith(PRESET)]


def _name() -> Json:
    path = {**_TEXT, "pattern": r"^[./]|\.(yaml|yml|json)$", "description": "Another policy file."}
    package = {**_TEXT, "pattern": "^(?!preset:)[^:]+:.+", "description": "package:name of an entry point."}
    return {"anyOf": [{"enum": _names()}, path, package, VARIABLE]}


def _use(**further: Json) -> Json:
    """Return the schema of a step with ``use:``: one branch for each name, which has the options."""
    branches = [
        {
            "if": {"properties": {"use": {"const": name}}, "required": ["use"]},
            "then": {"properties": {"with": {"$ref": f"#/$defs/{_key(name)}"}}, **_needs_options(name)},
        }
        for name in _names()
    ]
    properties = {"use": _name(), "id": _TEXT, "with": {"type": ["object", "null"]}, **_policy(), **further}
    return {**_object(properties, "use"), "allOf": branches}


def _needs_options(name: str) -> Json:
    return {"required": ["with"]} if required_names(maker_of(name)) else {}


def _policy() -> Json:
    fallback = _object({"use": _name(), "with": {"type": "object"}}, "use")
    return {
        "timeout": {**_TIME, "description": "The time that the step may take."},
        "on_error": {
            "anyOf": [{"enum": ["block", "raise", "allow"]}, fallback, VARIABLE],
            "description": "What happens if the step fails; a processor runs in its place.",
        },
        "mode": {**_words("enforce", "shadow"), "description": "shadow: it is recorded, and changes nothing."},
        "overlap": {**_words("model"), "description": "It runs beside the call of the model."},
        "offload": {**_words("thread"), "description": "It runs in a thread."},
        "retries": {"anyOf": [{"type": "integer", "minimum": 0}, VARIABLE], "description": "Further attempts."},
        "retry_delay": {**_TIME, "description": "The time between two attempts."},
    }


def _merge(*words: str) -> Json:
    return {"anyOf": [*_words("first", "last", *words)["anyOf"], _object({"pick": _TEXT}, "pick")]}


def _after() -> Json:
    edges = mapping_schema({"anyOf": [{"$ref": "#/$defs/when"}, {"type": "null"}]})
    return {"anyOf": [_TEXT, list_schema(_TEXT), edges], "description": "The members that run before."}


def _member() -> Json:
    return _object({"steps": _STEPS, "id": _TEXT, "after": _after(), **_policy()}, "steps", "id")


def _test() -> Json:
    short = [name.removeprefix("process_") for name in STAGES]
    expected = {
        "blocked_by": _TEXT,
        "text": {},
        "value": {},
        "flagged": {"anyOf": [_TEXT, list_schema(_TEXT)]},
    }
    outcome = [_object({name: schema}, name) for name, schema in expected.items()]
    properties: Json = {
        "name": _TEXT,
        "text": {"not": {"type": ["array", "object"]}},
        "messages": {"type": ["array", "string"]},
        "value": {},
        "stage": {"enum": [*short, *STAGES]},
        "tool": _TEXT,
        "args": {"type": "object"},
        "context": {"type": "object"},
        "profiles": list_schema(_TEXT),
        "expect": {"anyOf": [{"enum": [*WORDS]}, *outcome]},
    }
    inputs = [{"required": [name]} for name in ("text", "messages", "value")]
    value_or_text = {"required": ["text", "value"]}  # beside the value of a tool, messages may stand
    return {**_object(properties, "expect"), "anyOf": inputs, "not": value_or_text}


# The options of one name


def _options(maker: Maker) -> Json:
    docs, text = _docs_of(maker)
    shapes = option_shapes(maker)
    names = option_names(maker)
    if names is None:
        return {"type": "object", "description": text}
    parameters = inspect.signature(maker).parameters
    properties: Json = {}
    for name in sorted(names):
        shape = shapes.get(name)
        if shape is None:
            continue  # only Python can say it: a function, a store, a clock
        parameter = parameters.get(name)
        properties[name] = {**shape, **_described(docs.get(name, "")), **_default(parameter)}
    required = [name for name in required_names(maker) if name in properties]
    return {**_object(properties, *required), "type": ["object", "null"], "description": text}


def _docs_of(maker: Maker) -> tuple[Mapping[str, str], str]:
    """Return the descriptions of the options, and the first sentence about the whole."""
    doc = described(inspect.cleandoc(maker.__doc__ or ""))
    line = doc.text.partition("\n")[0]
    return (docs_of(maker) if is_class_of_processors(maker) else doc.parameters), line


def _described(text: str) -> Json:
    return {"description": text} if text else {}


def _default(parameter: inspect.Parameter | None) -> Json:
    value = None if parameter is None or parameter.default is parameter.empty else parameter.default
    if isinstance(value, (bool, int, float, str)):
        return {"default": value}
    items = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()
    simple = bool(items) and all(isinstance(one, (bool, int, float, str)) for one in items)
    return {"default": list(items)} if simple else {}


def _object(properties: Json, *required: str) -> Json:
    made: Json = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**made, "required": list(required)} if required else made
