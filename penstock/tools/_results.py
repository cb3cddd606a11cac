"""A tool's result as a JSON value, so that guards can read all of it; it knows no tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from penstock.engine.values.frozen import json_value

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value


class NotJSONError(Exception):
    """A result that is no JSON value; the text says why, and quotes nothing of it."""


def written(result: object) -> Value:
    """Return a result as a frozen JSON value: pydantic models, dataclasses, dates, enums, sets … as pydantic does.

    Raises:
        NotJSONError: something in it cannot be written: an object of an unknown type, NaN, an infinite number, bytes
            that are no UTF-8, half a surrogate pair, a value that holds itself or is nested more than 200 levels deep.
    """
    made = _plain(result)
    try:
        text_of(made)
    except UnicodeEncodeError as error:
        raise NotJSONError("its result holds half a surrogate pair, which is no character") from error
    except ValueError as error:
        raise NotJSONError("a number in its result is no JSON number") from error
    return made


def _plain(result: object) -> Value:
    try:
        return json_value(to_jsonable_python(result), "result")
    except UnicodeDecodeError as error:
        told = "its result holds bytes that are no UTF-8; return them as text, in base64 for example"
        raise NotJSONError(told) from error
    except Exception as error:  # a lazy iterator, or a serialiser of the user's, may raise anything
        told = "something in its result is no JSON value; return strings, numbers, lists and dicts"
        raise NotJSONError(told) from error


def text_of(result: Value) -> str:
    """Return a result's JSON text; of a str, itself.

    Raises:
        ValueError: a number is no JSON number, or a str no text.
    """
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text
