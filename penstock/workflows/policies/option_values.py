"""Whether the values of options have the form that their types ask for, before a constructor sees them.

A constructor need not check the types of all that it is given: in Python, a type checker does. A file has none, so
that ``banned_words: spam`` would ban the letters s, p, a and m, and ``ids: true`` would fail with the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.graph.builder import is_name
from penstock.engine.values.secret_names import is_secret, masked_code
from penstock.workflows.policies.options import VARIABLE, Json, may_be_null, option_shapes
from penstock.workflows.policies.problems import suggestion
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.workflows.policies.problems import FilePlace
    from penstock.workflows.policies.registry import Maker
    from penstock.workflows.policies.yaml_nodes import PolicyNode

Faults: TypeAlias = "Iterator[tuple[FilePlace, str]]"
"""Places, and what is wrong there."""

WORDS = {
    "string": "a text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "a mapping of names to values",
    "null": "null",
}
"""The types of JSON in words."""

_LONGEST = 60


def wrong_values(use: str, maker: Maker, options: MappingNode) -> dict[str, list[tuple[FilePlace, str]]]:
    """Return the faults of the values of options, by option; those without any are left out.

    Args:
        use: the name of the step, for the messages.
        maker: the maker of the step.
        options: the options.
    """
    shapes = option_shapes(maker)
    found: dict[str, list[tuple[FilePlace, str]]] = {}
    for name, (_, node) in options.entries.items():
        if name not in shapes or (_is_null(node) and may_be_null(maker, name)):
            continue
        shape = shapes[name]
        if shape is None:
            told = f"{use}: option {name!r} takes an object of Python, which a file cannot give; leave it out"
            found[name] = [(node.place, told)]
        elif faults := list(_faults(node, shape, name)):
            found[name] = [(place, _told_of(use, told, secret=is_secret(name))) for place, told in faults]
        elif name == "id" and isinstance(node, ScalarNode) and not is_name(node.text):
            found[name] = [(node.place, f"{use}: option 'id' must be a text without '/'")]
    return found


def _told_of(use: str, told: str, *, secret: bool) -> str:
    """Return a fault with the name of the step; without the value, if that may be a secret."""
    what, _, fault = told.partition(" is ")
    if secret:
        fault = fault.rpartition(", but must be ")[2]
        return f"{use}: option {what!r} must be {fault}"
    return f"{use}: option {what!r} is {fault}"


def _is_null(node: PolicyNode) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _faults(node: PolicyNode, shape: Json, what: str) -> Faults:
    """Yield the faults of a value: the deepest ones of the form that it comes closest to."""
    if not shape or shape == VARIABLE:
        return
    if "anyOf" in shape:
        yield from _faults_of_all(node, cast("list[Json]", shape["anyOf"]), what)
    elif "enum" in shape:
        words: list[object] = shape["enum"]
        if not isinstance(node, ScalarNode) or not any(_is_word(node, word) for word in words):
            yield node.place, _of_words(node, words, what)
    elif not _is_of_type(node, shape):
        yield node.place, _told(node, shape, what)
    elif isinstance(node, ListNode):
        for number, item in enumerate(node.items):
            yield from _faults(item, shape.get("items", {}), f"{what}[{number}]")
    elif isinstance(node, MappingNode):
        yield from _faults_of_entries(node, shape, what)


def _faults_of_all(node: PolicyNode, alternatives: Sequence[Json], what: str) -> Faults:
    """Yield the faults of a value that may have one of several forms: none if it has one of them."""
    real = [one for one in alternatives if one != VARIABLE]
    near: list[list[tuple[FilePlace, str]]] = []
    for one in real:
        faults = list(_faults(node, one, what))
        if not faults:
            return
        if "enum" not in one and _is_of_type(node, one):
            near.append(faults)  # it has the form, and a fault within
    if len(near) == 1:
        yield from near[0]
        return
    words = [word for one in real for word in cast("list[object]", one.get("enum", []))]
    if words and len(real) == 1 + sum("type" in one and one["type"] == "null" for one in real):
        yield node.place, _of_words(node, words, what)
        return
    yield node.place, f"{_told(node, {'anyOf': real}, what)}{_hint(node, words)}"


def _faults_of_entries(node: MappingNode, shape: Json, what: str) -> Faults:
    values: Json | bool = shape.get("additionalProperties", {})
    names: Json = shape.get("propertyNames", {})
    for name, (key, value) in node.entries.items():
        if "enum" in names and name not in names["enum"]:
            yield key.place, f"{what}.{name} is no name of it; {suggestion(name, map(str, names['enum']))}"
        elif isinstance(values, dict):
            yield from _faults(value, values, f"{what}.{name}")


def _is_of_type(node: PolicyNode, shape: Json) -> bool:
    if "anyOf" in shape:
        return any(_is_of_type(node, one) for one in shape["anyOf"])
    given: str | list[str] | None = shape.get("type")
    types = [given] if isinstance(given, str) else given
    return types is None or any(_has_type(node, one) for one in types)


def _has_type(node: PolicyNode, name: str) -> bool:
    if isinstance(node, ListNode):
        return name == "array"
    if isinstance(node, MappingNode):
        return name == "object"
    value = node.value
    if isinstance(value, bool) or name == "boolean":
        return isinstance(value, bool) and name == "boolean"
    if name == "number":
        return isinstance(value, (int, float))
    kinds: Mapping[str, type] = {"string": str, "integer": int, "null": type(None)}
    return name in kinds and isinstance(value, kinds[name])


def _is_word(node: ScalarNode, word: object) -> bool:
    return type(node.value) is type(word) and node.value == word


def _of_words(node: PolicyNode, words: Sequence[object], what: str) -> str:
    """Return the fault of a value that is none of some words."""
    return f"{what} is {_shown(node)}, but must be {_one_of(words)}{_hint(node, words)}"


def _hint(node: PolicyNode, words: Sequence[object]) -> str:
    """Return which of the words comes close to a value; empty if none does."""
    told = suggestion(node.text, map(_word, words)) if isinstance(node, ScalarNode) and words else ""
    return f"; {told}" if told.startswith("did you mean") else ""


def _told(node: PolicyNode, shape: Json, what: str) -> str:
    wanted = list(dict.fromkeys(_words(shape)))
    quotes = isinstance(node, ScalarNode) and not node.quoted and wanted == ["a text"] and not _is_null(node)
    hint = "; write it in quotes" if quotes else ""
    return f"{what} is {_shown(node)}, but must be {_or(wanted)}{hint}"


def _words(shape: Json) -> Iterator[str]:
    if "anyOf" in shape:
        for one in shape["anyOf"]:
            if one != VARIABLE and one.get("type") != "null":
                yield from _words(one)
    elif "enum" in shape:
        yield _one_of(shape["enum"])
    elif shape.get("type") == "array":
        inner = list(dict.fromkeys(_words(shape.get("items", {}))))
        yield (
            f"a list of {_or([_PLURAL[one] for one in inner])}" if inner and set(inner) <= _PLURAL.keys() else "a list"
        )
    else:
        given: str | list[str] | None = shape.get("type")
        yield from (WORDS[one] for one in ([given] if isinstance(given, str) else given or []))


_PLURAL = {
    "a text": "texts",
    "a whole number": "whole numbers",
    "a number": "numbers",
    "a list": "lists",
    "a mapping of names to values": "mappings",
}


def _one_of(words: Sequence[object]) -> str:
    return _word(words[0]) if len(words) == 1 else f"one of {', '.join(map(_word, words))}"


def _word(word: object) -> str:
    return str(word).lower() if isinstance(word, bool) else "null" if word is None else str(word)


def _or(words: Sequence[str]) -> str:
    return " or ".join(words) if words else "something else"


def _shown(node: PolicyNode) -> str:
    """Return a value as it stands in the file, cut; of a list or a mapping, its kind."""
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    text = masked_code(node.text)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f'"{text}"' if node.quoted or not text else text
