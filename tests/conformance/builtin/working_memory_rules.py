"""What is better than the reference of a working memory as it is shown; the reasons stand in docs/differences.md."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.conformance.builtin.frame import Fields

NOTHING = "(nothing is known yet)"
KEYS = {"resource": "resource", "thread": "thread"}


def nobodys_memory_is_not_shown(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where the id of the scope is missing there is no memory to be shown, and none to be changed."""
    context = given.get("context") or {}
    known = {"resource": context.get("resource"), "thread": (context.get("thread") or {}).get("id")}
    if given["method"] != "process_input" or known[options["scope"]]:
        return None
    return {"system_messages_tagged_memory": 0, "untagged_system_messages": 0}


def remembered(options: Fields, given: Fields) -> str:
    """Return what is known."""
    return given.get(f"{options['scope']}_working_memory") or ""


def what_is_not_known_is_said_in_words(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The word null, or an empty block, says nothing to a model."""
    if "data_block" not in expected or remembered(options, given):
        return None
    return {**expected, "data_block": NOTHING}


def remembered_text_stays_data(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """No tag is left in it: it can neither close its element nor open another; an object is escaped as JSON is."""
    text = remembered(options, given)
    if "data_block" not in expected or "<" not in text:
        return None
    is_json = (options["template"] or {}).get("format") == "json" and text.startswith("{")
    if not is_json:
        text = re.sub(r"<(?=\W*working_memory_data)", "[", text, flags=re.IGNORECASE)
    return {**expected, "data_block": text.replace("<", "\\u003c" if is_json else "&lt;")}


def parsed(options: Fields) -> Any:
    """Return the content of a template in JSON; None if it is none, or broken."""
    template = options["template"] or {}
    content = template.get("content")
    if template.get("format") != "json" or not isinstance(content, str):
        return content if template.get("format") == "json" else None
    try:
        return json.loads(content)
    except ValueError:
        return None


def is_schema(content: Fields) -> bool:
    """Tell whether something is a JSON Schema, and no mapping of names to such."""
    return not content or isinstance(content.get("type"), str) or "properties" in content


def is_object(content: Any) -> bool:
    """Tell whether something says of an object what is in it: as a JSON Schema, or field by field."""
    if not isinstance(content, dict) or not content:
        return False
    if is_schema(content):
        return content.get("type", "object") == "object"
    return all(isinstance(item, dict) and (is_schema(item) or is_object(item)) for item in content.values())


EMPTY = {"string": "", "number": 0, "integer": 0, "boolean": False, "array": []}


def bare(schema: Fields) -> Any:
    """Return what there is as long as nothing is known."""
    if not is_schema(schema):
        return {name: bare(item) for name, item in schema.items()}
    if "default" in schema:
        return schema["default"]
    if schema.get("type") == "object" or "properties" in schema:
        return {name: bare(item) for name, item in schema.get("properties", {}).items()}
    return EMPTY.get(schema.get("type", ""))


def fields_by_name_are_an_object(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The shape that the reference's own documents show is understood: fields with their types, nested or not."""
    content = parsed(options)
    if not is_object(content) or expected.get("variant") != "tool" or given.get("template_provider_returns"):
        return None
    return {**expected, "empty_json_object": bare(content)}


def a_template_that_is_broken_is_refused(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where the processor is made, not where a model wonders what is meant."""
    is_json = (options["template"] or {}).get("format") == "json"
    return {"error": True} if is_json and not is_object(parsed(options)) else None


def pieces_of_text_are_for_texts(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An object that is edited as a text ends as none: such a template is refused with that tool."""
    is_json = (options["template"] or {}).get("format") == "json"
    return {"error": True} if options["use_v_next"] and is_json else None


RULES = (
    nobodys_memory_is_not_shown,
    what_is_not_known_is_said_in_words,
    remembered_text_stays_data,
    fields_by_name_are_an_object,
    a_template_that_is_broken_is_refused,
    pieces_of_text_are_for_texts,
)
