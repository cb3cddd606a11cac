"""What a working memory is to hold: a text to fill in, or an object of some shape. It knows no store and no prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.processors.memory._working_shapes import SchemaShape, Shape, TypeShape, empty

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values

TemplateOption: TypeAlias = "str | Values | type"
"""A text in Markdown; a type (a pydantic model, a dataclass, a TypedDict); or a JSON Schema of an object.

A mapping of just ``format`` (``markdown`` or ``json``) and ``content`` says the same, as the reference has it.
"""

Way = Literal["replace", "edit", "merge", "fields"]
"""How a model changes a memory: it sends all of it anew; a piece of text; the fields that change; what to do where."""

_FITTING: dict[str, tuple[Way, ...]] = {"markdown": ("replace", "edit"), "json": ("fields", "merge")}

STANDARD = """\
# User Information
- **First Name**:
- **Last Name**:
- **Location**:
- **Occupation**:
- **Interests**:
- **Goals**:
- **Events**:
- **Facts**:
- **Projects**:
"""
"""What is filled in where nobody says anything else; the fields are the reference's."""

_ALLOWED = "a text in Markdown, a pydantic model, or the JSON Schema of an object"


@dataclass(frozen=True, slots=True)
class Template:
    """What a memory is to hold.

    Attributes:
        text: the text to be filled in; of an object, its JSON Schema.
        shape: what an object must fit; None for a text.
        empty: the object as it is while nothing is known, as JSON.
    """

    text: str
    shape: Shape | None = field(default=None, compare=False)
    empty: str = ""

    @property
    def format(self) -> Literal["markdown", "json"]:
        """Whether it is a text, or an object."""
        return "markdown" if self.shape is None else "json"

    @property
    def standard(self) -> bool:
        """Whether it is the one that counts where nobody says anything else."""
        return self.text.split() == STANDARD.split()

    def way(self, owner: str, given: Way | None) -> Way:
        """Return how it is changed: as given, or as is best for what it is.

        Raises:
            OptionError: it cannot be changed so.
        """
        fitting = _FITTING[self.format]
        if given is not None and given not in fitting:
            told = " or ".join(map(repr, fitting))
            raise OptionError(owner, "update", given, f"{told} for a template in {self.format.capitalize()}")
        return given or fitting[0]


def template_of(owner: str, given: TemplateOption | None) -> Template:
    """Return the template that an option means; None is the standard one.

    Raises:
        OptionError: it is none.
        MissingExtraError: it is a JSON Schema, and the extra ``json-schema`` is not installed.
    """
    if given is None:
        return Template(STANDARD)
    if isinstance(given, str):
        if not given.strip():
            raise OptionError(owner, "template", given, f"{_ALLOWED}, not blank")
        return Template(given)
    if isinstance(given, type):
        return _shaped(TypeShape(owner, given))
    if not isinstance(cast("object", given), Mapping):
        raise OptionError(owner, "template", given, _ALLOWED)
    if {*given} == {"format", "content"}:
        return _named(owner, given["format"], given["content"])
    return _of_schema(owner, given)


def way_of(owner: str, given: object) -> Way | None:
    """Return the option ``update``.

    Raises:
        OptionError: there is no such way.
    """
    if given is not None and given not in get_args(Way):
        raise OptionError(owner, "update", given, f"one of {', '.join(map(repr, get_args(Way)))}, or None")
    return cast("Way | None", given)


def written(document: Value) -> str:
    """Return an object as it is kept: JSON, without blanks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _named(owner: str, form: object, content: Value) -> Template:
    if form == "markdown" and isinstance(content, str):
        return template_of(owner, content)
    if form != "json":
        raise OptionError(owner, "template", form, "format='markdown' with a text, or format='json' with a JSON Schema")
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except ValueError as error:
            raise OptionError(owner, "template", content, "a JSON Schema as JSON; this is no JSON") from error
    if not is_mapping(content):
        raise OptionError(owner, "template", content, "the JSON Schema of an object")
    return _of_schema(owner, content)


def _of_schema(owner: str, given: Values) -> Template:
    """Return the template of a JSON Schema; of a mapping of fields to schemas, that of the object with those fields."""
    schema = given if _is_schema(given) else _object(given)
    return _shaped(SchemaShape(owner, {"type": "object", **schema} if "properties" in schema else schema))


def _is_schema(given: Values) -> bool:
    return not given or any(isinstance(given.get(name), str) for name in ("type", "$ref")) or "properties" in given


def _object(fields: Values) -> dict[str, Value]:
    schemas = {
        name: item if not is_mapping(item) or _is_schema(item) else _object(item) for name, item in fields.items()
    }
    return {"type": "object", "properties": schemas}


def _shaped(shape: Shape) -> Template:
    return Template(written(shape.schema), shape, written(empty(shape.schema, shape.schema)))
