"""The language of the gateway's tables: for every field of a request, an answer or an event, who reads it.

A table is a tree of `Obj`, `EachItem`, `ByType` and `OneOf`, with a `Field` at each leaf. `places` walks a JSON value
with a table. It returns each leaf with its path, and the fields that the table does not know. The page about coverage
is made of the same tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, cast

from penstock.detection.patterns.validators import card
from penstock.engine.values.terms import is_address, is_code, is_model, is_word
from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.words import is_usual_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.formats.wire import Json, Value

Path: TypeAlias = "tuple[str | int, ...]"
"""The keys and indices that lead to a value."""

Kind: TypeAlias = Literal[
    "text", "reasoning", "repeat", "call_id", "call_name", "arguments", "value", "term", "sealed", "seal", "tokens",
    "echo", "offset", "message", "refused",
]  # fmt: skip
"""Who reads a field:

- ``text``, ``reasoning``: a piece of a text of the answer. Guards read it with the pieces around it.
- ``repeat``: a text, or a piece of a call, that went before. It follows what guards made of that. A text that says
  something else, or that nothing went before, is read by itself; a call that says something else is one of its own.
- ``call_id``, ``call_name``, ``arguments``: a call of a tool, or a piece of one. It is judged as a whole call.
- ``value``: any JSON value with texts. Guards read all of it, keys too.
- ``term``: an id, a name, a number, a word of the format. It passes if it has the form of one; else it is a ``value``,
  as is a number of 12 digits or more in a request.
- ``sealed``: encrypted, signed, or a picture: nobody can read it. It passes if it has the form; else it is a ``value``.
- ``seal``: the signature of a text that went before, or stands beside it. It is replaced where that text was changed.
- ``tokens``: the tokens of a text beside it. They are dropped where that text was changed, or is not theirs.
- ``echo``: a field of the request, which the answer repeats. The client gets its own back.
- ``offset``: a place in a text beside it, in characters. It moves where guards changed that text before it.
- ``message``: a message of a request, which `penstock.formats` reads and writes.
- ``refused``: it would escape the gateway. It is refused, unless it is empty.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A leaf of a table.

    Attributes:
        kind: who reads it; see `Kind`.
        note: for the page about coverage; for a refused field, the cure.
        allowed: the values of a refused field that are no danger.
        permit: the word with which an operator lets a refused field pass; guards read it then.
        of: for a repeat, the kind of the repeated field.
        tool: for the arguments of a call that names no tool, the tool.
        code: for a refused field, the code of the error, if libraries of clients know one and go on without the field.
    """

    kind: Kind
    note: str = ""
    allowed: tuple[Value, ...] = (None, False, "", 0)
    permit: str = ""
    of: Kind = "value"
    tool: str = ""
    code: str = "unguarded_field"


STATE: Final = "state"
"""Permits what the provider keeps, or reads from what it has kept."""

HOSTED_TOOLS: Final = "hosted-tools"
"""Permits tools that the provider runs itself."""


@dataclass(frozen=True, slots=True)
class Obj:
    """An object with known keys.

    Attributes:
        fields: the tables of its values, by key.
        rest: for all other keys; None if there must not be others.
    """

    fields: Mapping[str, Spec]
    rest: Spec | None = None


@dataclass(frozen=True, slots=True)
class EachItem:
    """A list."""

    item: Spec


@dataclass(frozen=True, slots=True)
class ByType:
    """An object that a key tells the form of.

    Attributes:
        forms: by the value of that key, the object's table, or the field that the whole object is; the key itself is a
            term of each. A value that ends in ``*`` is that of all dates (``bash_*`` of ``bash_20250124``), and ``*``
            that of all others.
        key: the key.
        usual: that of an object without that key; None if it must be there.
    """

    forms: Mapping[str, Spec]
    key: str = "type"
    usual: Spec | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of one of several JSON types. A type without a table is unknown; numbers and null are terms.

    Attributes:
        text: the table of a str.
        items: the table of a list.
        obj: the table of an object.
    """

    text: Field | None = None
    items: EachItem | None = None
    obj: Obj | ByType | None = None


Spec: TypeAlias = "Field | Obj | EachItem | ByType | OneOf"

TEXT: Final = Field("text")
REASONING: Final = Field("reasoning")
REPEAT: Final = Field("repeat")
VALUE: Final = Field("value")
TERM: Final = Field("term")
SEALED: Final = Field("sealed")
SEAL: Final = Field("seal")
TOKENS: Final = Field("tokens")
ECHO: Final = Field("echo")
OFFSET: Final = Field("offset")
MESSAGE: Final = Field("message")
COUNTS: Final = Field("term", "counts and words")


class Place(NamedTuple):
    """A leaf of a JSON value.

    Attributes:
        field: its leaf in the table.
        path: where it stands.
        value: the value there.
    """

    field: Field
    path: Path
    value: Value


class Places:
    """All leaves of a JSON value, by a table.

    Attributes:
        known: the leaves in order; terms and sealed values of the right form are left out.
        unknown: the leaves that the table does not know, as values.
        asked: whether it is a request.
    """

    __slots__ = ("asked", "known", "unknown")

    def __init__(self, *, asked: bool) -> None:
        self.known: list[Place] = []
        self.unknown: list[Place] = []
        self.asked = asked

    def says_nothing(self, value: Value) -> bool:
        """Return whether a value of an unknown field holds nothing to read: it is empty, or a count of a provider's."""
        if value is None or value is False or value in ("", [], {}):
            return True
        return not self.asked and isinstance(value, (bool, int, float)) and not has_long_number(value)


def places(spec: Spec, value: Value, path: Path = (), *, asked: bool = False) -> Places:
    """Return all leaves of a JSON value that somebody has to read.

    Args:
        spec: the table.
        value: the value.
        path: where it stands.
        asked: whether it is a request. In one, any unknown field counts that is not empty, and a long number is read.
    """
    found = Places(asked=asked)
    _walk(spec, value, path, found)
    return found


def _walk(spec: Spec | None, value: Value, path: Path, found: Places) -> None:
    kind = type(spec)
    if kind is Field:
        _leaf(cast("Field", spec), value, path, found)
    elif value is None or value is True or value is False:
        return
    elif kind is Obj and is_object(value):
        _walk_object(cast("Obj", spec), value, path, found)
    elif kind is EachItem and is_array(value):
        item_spec = cast("EachItem", spec).item
        for index, item in enumerate(value):
            _walk(item_spec, item, (*path, index), found)
    elif isinstance(spec, ByType) and is_object(value) and (form := _form(spec, value)) is not None:
        if isinstance(form, Obj):
            _walk_object(form, value, path, found, besides=spec.key)
        else:
            _walk(form, value, path, found)
    elif isinstance(spec, OneOf) and (inner := _by_json_type(spec, value)) is not None:
        _walk(inner, value, path, found)
    elif not found.says_nothing(value):
        found.unknown.append(Place(VALUE, path, value))


def _walk_object(  # noqa: C901, PLR0912 - one loop, without calls that cost time
    spec: Obj, value: Json, path: Path, found: Places, besides: str = ""
) -> None:
    get, rest = spec.fields.get, spec.rest
    for key, item in value.items():
        inner = get(key, rest)
        if inner is not rest and type(inner) is Field:
            if inner.kind == "term":
                if type(item) is str:  # most are a short word, or a number that is not long: terms at first sight
                    if len(item) < _CARD_DIGITS and item.isascii() and item.isidentifier():
                        continue
                elif item is None or type(item) is bool or (type(item) is int and -_LONG < item < _LONG):
                    continue
            if key != besides:
                _leaf(inner, item, (*path, key), found)
        elif key == besides:
            continue
        elif inner is None:
            if not found.says_nothing(item) or not is_word(key):
                found.unknown.append(Place(VALUE, (*path, key), item))
        elif inner is rest and not is_usual_word(key):
            found.known.append(Place(VALUE, path, value))  # its keys are somebody's words
            return
        elif (inner is COUNTS or inner is TERM) and type(item) is int and -_LONG < item < _LONG:
            continue
        else:
            _walk(inner, item, (*path, key), found)


def _form(spec: ByType, value: Json) -> Spec | None:
    kind = value.get(spec.key)
    if kind is None:
        return spec.usual
    if not isinstance(kind, str):
        return None
    return spec.forms.get(kind) or spec.forms.get(_DATE.sub("*", kind)) or spec.forms.get("*")


def _by_json_type(spec: OneOf, value: Value) -> Spec | None:
    if isinstance(value, str):
        return spec.text
    if is_array(value):
        return spec.items
    return spec.obj if is_object(value) else TERM


def _leaf(leaf: Field, value: Value, path: Path, found: Places) -> None:
    kind = leaf.kind
    form = _FORMS.get(kind)
    if form is not None:
        if not form(value) or (found.asked and kind == "term" and has_long_number(value)):
            found.known.append(Place(VALUE, path, value))
        elif kind == "seal" and value:
            found.known.append(Place(leaf, path, value))
    elif kind == "refused":
        if value not in leaf.allowed:
            found.known.append(Place(leaf, path, value))
    elif kind == "offset":
        is_place = isinstance(value, int) or value is None
        found.known.append(Place(leaf if is_place else VALUE, path, value))
    elif value is not None and (kind not in _PIECES or value != ""):
        is_text = isinstance(value, str) or (leaf.of if kind == "repeat" else kind) not in _STRINGS
        found.known.append(Place(leaf if is_text else VALUE, path, value))


_STRINGS = frozenset({"text", "reasoning", "call_id", "call_name"})
_PIECES = frozenset({"text", "reasoning", "arguments"})
_LONG = 10**11  # the least number of 12 digits
_NUMBERS, _MOST = (int, float), 1000  # of a vector: no number of a card or a phone fits
_DATE = re.compile(r"\d{8}$")
_CARD_DIGITS = 13
_CARD = re.compile(r"(?<![A-Za-z0-9])[3-6](?:[ -]?\d){12,18}(?![A-Za-z0-9])")
_SEALED = re.compile(r"(?:data:[a-z]+/[\w.+-]+;base64,)?[A-Za-z0-9+/_=.:\r\n-]*")


def is_term(value: Value) -> bool:
    """Tell whether a value is none of a person's words: a number, an id, a word, a model, an address of a server.

    A text with the number of a payment card is one to read, although some ids have that form.
    """
    if isinstance(value, str):
        if len(value) >= _CARD_DIGITS and any(map(card, _CARD.findall(value))):
            return False
        return is_code(value) or is_model(value) or is_word(value) or is_address(value) or value == ""
    if is_array(value):
        return all(map(is_term, value))
    if is_object(value):
        return all(is_term(item) and (is_word(key) or is_model(key)) for key, item in value.items())
    return True


def is_sealed(value: Value) -> bool:
    """Tell whether a value has the form of encrypted, signed or encoded bytes, or of a vector: nobody reads them."""
    if isinstance(value, str):
        return _SEALED.fullmatch(value) is not None
    return value is None or (is_array(value) and all(type(one) in _NUMBERS and abs(one) < _MOST for one in value))


_FORMS: Final = {"term": is_term, "sealed": is_sealed, "seal": is_sealed}


def has_long_number(value: Value) -> bool:
    """Return whether a value is, or holds, a number of 12 digits or more: that of a card or an account may be one."""
    if is_array(value):
        return any(map(has_long_number, value))
    if is_object(value):
        return any(map(has_long_number, value.values()))
    return type(value) in _NUMBERS and abs(value) >= _LONG


def repeated(spec: Spec) -> Spec:
    """Return a table in which all texts and calls are repeats, for an event that says earlier ones again."""
    if isinstance(spec, Field):
        return replace(spec, kind="repeat", of=spec.kind) if spec.kind in _SAID else spec
    if isinstance(spec, EachItem):
        return EachItem(repeated(spec.item))
    if isinstance(spec, Obj):
        fields = {key: repeated(inner) for key, inner in spec.fields.items()}
        return Obj(fields, None if spec.rest is None else repeated(spec.rest))
    if isinstance(spec, ByType):
        return replace(spec, forms={kind: repeated(form) for kind, form in spec.forms.items()})
    return spec


_SAID = frozenset({"text", "reasoning", "call_id", "call_name", "arguments"})


# Reading and writing at a path


def at(value: Value, path: Path) -> Value:
    """Return the value at a path."""
    for key in path:
        value = value[key]
    return value


def alone(value: Value, path: Path, leaf: Value) -> Value:
    """Return a JSON value with a leaf at a path, and nothing beside it but terms of the objects on the way."""
    if not path:
        return leaf
    if not is_object(value):
        return [alone(at(value, path[:1]), path[1:], leaf)]
    made: Json = {}
    for key, item in value.items():
        if key == path[0]:
            made[key] = alone(item, path[1:], leaf)
        elif is_array(item):
            made[key] = []
        elif not is_object(item) and is_term(item):
            made[key] = item
    return made


def with_values(value: Value, changes: Mapping[Path, Value]) -> Value:
    """Return a JSON value with other values at some paths. Unchanged parts are shared; `GONE` removes a key."""
    if not changes:
        return value
    if () in changes:
        return changes[()]
    below: dict[str | int, dict[Path, Value]] = {}
    for path, item in changes.items():
        below.setdefault(path[0], {})[path[1:]] = item
    pairs: Value = value.items() if is_object(value) else enumerate(value)
    inside: dict[str | int, Value] = dict(pairs)
    for key, inner in below.items():
        left = with_values(inside.get(key), inner)
        if left is not GONE:
            inside[key] = left
        elif is_object(value):
            inside.pop(key, None)
        else:
            inside[key] = None
    return inside if is_object(value) else list(inside.values())


class _Gone:
    """Marks a key that is removed."""

    def __repr__(self) -> str:
        return "GONE"


GONE: Final = _Gone()


# For the page of what is covered


class TableRow(NamedTuple):
    """A line of the page about coverage: a field, by its dotted name, and who reads it."""

    name: str
    kind: str
    note: str


def rows(spec: Spec, name: str = "") -> Iterator[TableRow]:
    """Yield each field of a table, in its order."""
    if isinstance(spec, Field):
        yield TableRow(name, spec.kind, spec.note)
    elif isinstance(spec, Obj):
        for key, inner in spec.fields.items():
            yield from rows(inner, f"{name}.{key}" if name else key)
        if spec.rest is not None:
            yield from rows(spec.rest, f"{name}.*" if name else "*")
    elif isinstance(spec, EachItem):
        yield from rows(spec.item, f"{name}[]")
    else:
        for more, inner in _forms(spec):
            yield from rows(inner, f"{name}{more}")


def _forms(spec: ByType | OneOf) -> Iterator[tuple[str, Spec]]:
    """Yield the tables that a value may have, each with the addition to the name."""
    if isinstance(spec, ByType):
        yield from ((f"<{form}>", inner) for form, inner in spec.forms.items())
    for one in (spec.usual,) if isinstance(spec, ByType) else (spec.text, spec.items, spec.obj):
        if one is not None:
            yield "", one
