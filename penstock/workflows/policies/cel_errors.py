"""Messages about faulty conditions, in words and with a cure: those of the library of CEL speak of its grammar.

A message about an expression that failed while it ran quotes nothing of the request, but keys that stand in the
expression.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from penstock.workflows.policies.expressions import ExpressionError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOPS = ("exists", "exists_one", "all", "filter", "map")
"""The functions that name an item of a list in their first argument."""

FUNCTIONS = (
    *("contains", "startsWith", "endsWith", "matches", "size", "has", *LOOPS),
    *("int", "uint", "double", "string", "bytes", "bool", "type", "dyn", "timestamp", "duration", "getHours"),
    *("getDayOfWeek", "getFullYear", "getMonth", "getDate", "getMinutes", "getSeconds"),
)
"""The functions of the language."""

INSTEAD = {
    "and": "&&",
    "or": "||",
    "not": "!(…)",
    "is": "==",
    "True": "true",
    "False": "false",
    "None": "null",
    "nil": "null",
    "len": "….size()",
    "length": "….size()",
    "count": "….size()",
    "lower": '….matches("(?i)…"), which ignores upper and lower case',
    "upper": '….matches("(?i)…"), which ignores upper and lower case',
    "lowerAscii": '….matches("(?i)…"), which ignores upper and lower case',
    "any": "….exists(one, …)",
    "includes": "….contains(…)",
    "search": "….matches(…)",
    "match": "….matches(…)",
    "strip": "….matches(…)",
}
"""The words of other languages, each with its counterpart in CEL."""

SIGNS = {
    "&": "&&",
    "|": "||",
    "=": "==",
    "===": "==",
    "!==": "!=",
    "=~": "….matches(…)",
    "<>": "!=",
    "~": "….matches(…)",
}
"""The signs of other languages, each with its counterpart in CEL."""

_TYPES = {
    "string": "a text",
    "int": "a whole number",
    "int64": "a whole number",
    "uint": "a whole number",
    "double": "a number with a point",
    "bool": "true or false",
    "null": "null",
    "null_type": "null",
    "list": "a list",
    "map": "a mapping",
}
_NUMBERS = ("int", "int64", "uint", "double")
_COMPARING = ("<", ">", "<=", ">=", "==", "!=")
_UNKNOWN = re.compile(r"undeclared reference to '([^']*)'")
_SELECTED = re.compile(r"expression of type '([^']*)' cannot be the operand of a select operation")
_NO_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '(.*)'", re.DOTALL)
_NO_OVERLOAD_NOW = re.compile(
    r"No matching overloads found : (?:\((?P<owner>[^)]*)\)\.)?(?P<name>[^(]+)(?:\((?P<types>.*)\))?"
)
_TOKEN = re.compile(r"Syntax error: token recognition error at: '(.*)'", re.DOTALL)
_MISSING = re.compile(r"Syntax error: missing '(.+?)' at '(.*?)'", re.DOTALL)
_EXPECTED_OTHER = re.compile(
    r"Syntax error: (?:mismatched|extraneous|no viable alternative at) input '(.*?)'(?= |$)", re.DOTALL
)


def compile_error(problem: str, line: int, column: int, source: str, names: Iterable[str]) -> ExpressionError:
    """Return the error about an expression that cannot be compiled.

    Args:
        problem: the message of the library.
        line: the line of the fault within the expression, from 1.
        column: its column, from 1.
        source: the expression.
        names: the names that it may read.
    """
    known = sorted(names)
    if found := _UNKNOWN.search(problem):
        return _unknown(found[1], line, column, source, known)
    told = _of_types(problem, source.splitlines()[line - 1 :][:1], column, known) or _of_syntax(problem, source)
    return ExpressionError(told or problem, line, column)


def run_error(problem: str, source: str) -> str:
    """Return the message about an expression that has no value for a request. It quotes nothing of the request."""
    if found := re.search(r'Key not found in map : "(.*)"', problem, re.DOTALL):
        return _missing_key(found[1], source)
    if found := _NO_OVERLOAD_NOW.search(problem):
        types = [one for one in (found["owner"], *(found["types"] or "").split(", ")) if one]
        return _applied(_sign(found["name"].strip()), types)
    for part, told in _RUN_ERRORS.items():
        if part in problem:
            return told
    return "it has no value for this request"


_RUN_ERRORS = {
    "invalid regular expression": "a pattern in matches() is malformed",
    "divide by zero": "it divides by zero",
    "overflow": "a number is too large",
    "Iteration budget": "it takes too long; loop over shorter lists",
    "conversion": "a value cannot be converted; ask first whether it is of that form, with matches()",
    "cannot convert": "a value cannot be converted; ask first whether it is of that form, with matches()",
    "Index error": "a list has no such element; ask for its size() first",
    "Applying SELECT": "a value has no keys, because it is no mapping",
}


def wrong_value(type_name: str) -> str:
    """Return the message about an expression whose value is neither true nor false, by the type of the value."""
    return f"its value is {_type(type_name.lower())}, but must be true or false"


def _missing_key(key: str, source: str) -> str:
    """Return the message about a key that is not there; its name only if it stands in the expression."""
    found = re.search(rf"\b([\w.]+)\.{re.escape(key)}\b", source)
    if found is not None:
        return f"there is no {found[1]}.{key}; ask first: has({found[1]}.{key})"
    if key and key in source:
        return f'there is no key "{key}"; ask first: "{key}" in …'
    return "a key is not there; ask first, with has() or in"


# Names


def _unknown(name: str, line: int, column: int, source: str, known: list[str]) -> ExpressionError:
    before = source.splitlines()[line - 1][: column - 1 + len(name)]
    column = before.rfind(name) + 1 or column  # the library says where the last dot is
    if name in INSTEAD:
        return ExpressionError(f"CEL has no {name}; write {INSTEAD[name]}", line, column)
    loop = re.search(rf"(\.?)\b(\w+)\s*\(\s*(?:[\w.]+\s*,\s*)?{re.escape(name)}\s*,", source)
    if loop is not None and (loop[2] not in LOOPS or not loop[1]):
        told = (
            _no_function(loop[2], LOOPS) if loop[2] not in LOOPS else f"write it behind a list: ….{loop[2]}({name}, …)"
        )
        return ExpressionError(told, line, column)
    if re.search(rf"\b{re.escape(name)}\s*\(", source):
        return ExpressionError(_no_function(name, FUNCTIONS), line, column)
    return ExpressionError(unknown_name(name, known), line, column, name)


def _no_function(name: str, functions: tuple[str, ...]) -> str:
    if name in INSTEAD:
        return f"CEL has no {name}; write {INSTEAD[name]}"
    by_lower = {one.lower(): one for one in functions}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    cure = f"did you mean {by_lower[close[0]]}?" if close else f"use one of {', '.join(functions[:11])}"
    return f"there is no function {name}; {cure}"


# Types


def _of_types(problem: str, at: list[str], column: int, known: list[str]) -> str | None:
    line = at[0] if at else ""
    if found := _SELECTED.search(problem):
        return _selected(found[1], line, column, known)
    if found := _NO_OVERLOAD.search(problem):
        return _applied(_sign(found[1]), _split(found[2].removeprefix("(").removesuffix(")")))
    if "has() argument" in problem:
        return "has() takes a key, as in has(args.amount) or has(context.tenant)"
    return None


def _selected(type_name: str, line: str, column: int, known: list[str]) -> str:
    """Return the message about a key of a value that has none: ``tool.nam``, ``text.size``."""
    base, field = re.search(r"[\w.]*$", line[: column - 1]), re.match(r"\.\s*(\w+)", line[column - 1 :])
    if base is None or field is None:
        return f"{_type(type_name)} has no keys"
    name = f"{base[0]}.{field[1]}"
    if base[0] == "known":
        return f'whether a fact is there, say as "{field[1]}" in known'
    if field[1] in ("size", "length", *FUNCTIONS):
        return f"write {base[0]}.{'size' if field[1] == 'length' else field[1]}(), with parentheses"
    own = [one for one in known if one.startswith(f"{base[0]}.")]
    return unknown_name(name, own) if own else f"{base[0]} is {_type(type_name)}, which has no {field[1]}"


def _applied(sign: str, types: list[str]) -> str:
    """Return the message about an operator or a function that does not take such values."""
    kinds = [one.partition("(")[0] for one in types]
    numbers = [one in _NUMBERS for one in kinds]
    if sign == "? :":
        return "a choice (condition ? one : other) needs a condition, and two results of one type"
    if "iter_range" in sign:
        return f"{', '.join(LOOPS)} loop over lists and mappings only"
    if sign in ("&&", "||", "!"):
        return f'{sign} takes only what is true or false; compare first, as in text != ""'
    if sign == "in" and kinds[:2] == ["string", "string"]:
        return 'in looks into lists and mappings; in a text, write text.contains("…")'
    if sign in _COMPARING and all(numbers) and len(set(kinds)) > 1:
        return f"{sign} compares whole numbers with whole numbers and others with others: write 1.0 for 1, or double(…)"
    if sign in _COMPARING and "string" in kinds and any(numbers):
        return f"{sign} cannot compare a text with a number; leave the quotes out, or compare its size()"
    if sign in ("contains", "startsWith", "endsWith", "matches"):
        return f"{sign}() asks a text for a text in quotes, not {' for '.join(map(_type, types))}"
    if sign == "[…]" and kinds[:1] == ["string"]:
        return "a text has no elements; use startsWith(), endsWith(), contains() or matches()"
    return (
        f"{sign} cannot be applied to {' and '.join(map(_type, types))}" if types else f"{sign} does not fit its values"
    )


def _sign(name: str) -> str:
    """Return an operator or a function as it is written: ``>`` for ``_>_``."""
    special = {"@in": "in", "_[_]": "[…]", "_?_:_": "? :"}
    return special.get(name) or (name.strip("_") if not name.strip("_").isidentifier() else name)


def _type(name: str) -> str:
    kind = name.partition("(")[0]
    return _TYPES.get(kind, f"a value of the type {name}")


def _split(types: str) -> list[str]:
    """Return the types of a list, of which each may have commas in parentheses."""
    return [one.strip() for one in re.findall(r"(?:[^,(]|\((?:[^()]|\([^()]*\))*\))+", types)]


# Grammar


def _of_syntax(problem: str, source: str) -> str | None:
    if not source.strip():
        return "the expression is empty"
    if found := _TOKEN.search(problem):
        return _token(found[1].strip(), source)
    if found := _MISSING.search(problem):
        where = "at the end" if found[2] == "<EOF>" else f"before {found[2]}"
        return f"a {found[1]} is missing {where}"
    if found := _EXPECTED_OTHER.search(problem):
        return _unexpected(found[1], problem, source)
    if found := re.search(r"reserved identifier: (\w+)", problem):
        return f"{found[1]} is a reserved word; a choice is written condition ? one : other"
    return None


def _token(token: str, source: str) -> str:
    if token[:1] in ("'", '"'):
        return f"a text is not closed: the second {token[0]} is missing"
    for sign in ("===", "!==", "=~"):
        if sign in source and token[:1] in sign:
            return f"CEL has no {sign}; write {SIGNS[sign]}"
    return f"CEL has no {token}; write {SIGNS[token]}" if token in SIGNS else f"CEL has no sign {token}"


def _unexpected(found: str, problem: str, source: str) -> str:
    if found == "<EOF>":
        closing = re.search(r"expecting '([)\]}])'", problem)
        return (
            f"a {closing[1]} is missing at the end"
            if closing
            else "the expression ends too early; something is missing"
        )
    if found in INSTEAD:
        return f"CEL has no {found}; write {INSTEAD[found]}"
    if found == ">" and "<>" in source:
        return f"CEL has no <>; write {SIGNS['<>']}"
    if found in (")", "]", "}"):
        opened = {")": "(", "]": "[", "}": "{"}[found]
        return f"there is a {found} without a {opened} before it"
    return f"it cannot be read from {found} on; is an operator or a quote missing before it?"
