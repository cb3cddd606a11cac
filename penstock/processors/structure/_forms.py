"""Which form a schema says: that of a type, or that of a JSON Schema. It knows no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from penstock.engine.values.errors import OptionError
from penstock.processors.structure._form import OWNER, Form

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values


def form_of(schema: Value) -> Form:
    """Return the form that a type, or a JSON Schema, says.

    Raises:
        OptionError: it says none.
        MissingExtraError: it is a JSON Schema, and the library that reads those is not installed.
    """
    if isinstance(schema, Mapping):
        from penstock.processors.structure._json_schema import JSONSchemaForm  # wants an extra

        return JSONSchemaForm(cast("Values", schema))
    if schema is None or isinstance(schema, str):
        raise OptionError(OWNER, "schema", schema, "a type that pydantic can validate, or a JSON Schema")
    from penstock.processors.structure._types import TypeForm

    return TypeForm(schema)
