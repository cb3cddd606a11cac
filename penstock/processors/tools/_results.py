"""A tool's result as a JSON value, so that guards can read all of it; it knows no tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic_core import PydanticSerializationError, to_jsonable_python

from penstock.engine.errors import MessageError
from penstock.engine.json_values import json_value

if TYPE_CHECKING:
    from penstock.engine.frozen import Value


class NotJSONError(Exception):
    """A result that is no JSON value; the text says why, and quotes nothing of it."""


def written(result: object) -> Value:
    """Return a result as a frozen JSON value: pydantic models, dataclasses, dates, enums, sets … as pydantic does.

    Raises:
        NotJSONError: something in it cannot be written: an object of an unknown type, NaN, an infinite number, bytes
            that are no UTF-8, half a surrogate pair, a value that holds itself or more than 200 levels.
    """
    try:
        made = json_value(to_jsonable_python(result), "result")
        text_of(made)
    except (PydanticSerializationError, MessageError) as error:
        told = "something in its result is no JSON value; return strings, numbers, lists and dicts"
        raise NotJSONError(told) from error
    except (ValueError, RecursionError) as error:
        raise NotJSONError(_WHY.get(type(error), "a number in its result is no JSON number")) from error
    return made


_WHY: dict[type, str] = {
    UnicodeDecodeError: "its result holds bytes that are no UTF-8; return them as text, in base64 for example",
    UnicodeEncodeError: "its result holds half a surrogate pair, which is no character",
    RecursionError: "its result is nested too deeply",
}


def text_of(result: Value) -> str:
    """Return a result's JSON text; of a str, itself.

    Raises:
        ValueError: a number is no JSON number, or a str no text.
    """
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text
