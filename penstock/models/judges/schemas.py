"""JSON Schemas: the strict form that providers enforce, and which parts of a value are entries of lists and mappings.

An invalid entry can be left out, and the rest keeps its meaning. A field cannot: its default would mean something else.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import Value, is_items, is_mapping, thaw
from penstock.models.judges.lenient_json import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value


Schema: TypeAlias = "dict[str, Value]"
Path: TypeAlias = "tuple[str | int, ...]"

_EITHER = ("anyOf", "oneOf", "allOf")

_DEEPEST = 100
"""The levels of lists and mappings in a JSON Schema: what reads schemas takes many calls for each. Providers accept 10
levels of objects, which are 20 of mappings."""

TOO_DEEP = f"a JSON Schema of at most {_DEEPEST} levels of mappings and lists: name parts of it in $defs"


def plain_schema(owner: str, option: str, given: Mapping[str, Value]) -> Schema:
    """Return a JSON Schema of the user's as plain dicts and lists.

    Raises:
        OptionError: it is nested too deeply.
    """
    level: list[Value] = [given]
    for _ in range(_DEEPEST):
        level = [item for value in level for item in _items(value)]
        if not level:
            plain: Schema = thaw(dict(given))
            return plain
    raise OptionError(owner, option, type(given), TOO_DEEP)


def _items(value: Value) -> Iterable[Value]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Value]", value).values()
    return value if is_items(value) else ()


class SchemaPaths:
    """The paths of the values that a schema describes."""

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._defs: dict[str, Schema] = schema.get("$defs", {})

    def fields(self, schema: Schema) -> frozenset[str]:
        """Return the names of the fields of an object, or of all objects of a union."""
        return frozenset(name for node in self._plain(schema) for name in node.get("properties", ()))

    def is_object(self, schema: Schema) -> bool:
        """Tell whether the schema describes exactly one object type with fields."""
        nodes = list(self._plain(schema))
        return len(nodes) == 1 and bool(nodes[0].get("properties"))

    def entry(self, data: Value, place: Sequence[str | int]) -> Path | None:
        """Return the path of the innermost list or mapping entry that contains a path; None if there is none.

        Steps of the path that the data do not have, such as the member of a union, are ignored.
        """
        return max((found for found, is_entry in self._steps(data, place) if is_entry), key=len, default=None)

    def named(self, data: Value, place: Sequence[str | int]) -> str:
        """Return a path as text. Keys of mappings are shown as ``*``, since they may be secrets."""
        words = ""
        for found, is_entry in self._steps(data, place):
            last = found[-1]
            words += f"[{last}]" if isinstance(last, int) else f".{'*' if is_entry else last}"
        return words.lstrip(".") or "the whole"

    def _steps(self, data: Value, place: Sequence[str | int]) -> Iterator[tuple[Path, bool]]:
        """Walk along a path; yield each step that the data have, and whether it is an entry."""
        nodes = list(self._plain(self._root))
        at: Value = data
        done: Path = ()
        for name in place:
            if is_items(at) and isinstance(name, int) and 0 <= name < len(at):
                below: list[object] = [node["items"] for node in nodes if "items" in node]
                is_entry = bool(below)
            elif is_mapping(at) and name in at:
                below = [node["properties"][name] for node in nodes if name in node.get("properties", ())]
                is_entry = not below
                below = below or [node.get("additionalProperties") for node in nodes]
            else:
                continue
            nodes = [plain for node in below if is_mapping(node) for plain in self._plain(node)]
            at = _at(at, (name,))
            done = (*done, name)
            yield done, is_entry

    def _plain(self, schema: Schema, depth: int = 0) -> Iterator[Schema]:
        """Yield the schemas that a schema may stand for, with references and unions resolved."""
        if depth > len(self._defs) + 8:  # a type that is only a reference to itself
            return
        if "$ref" in schema:
            yield from self._plain(self._defs.get(schema["$ref"].rpartition("/")[2], {}), depth + 1)
            return
        members = [member for name in _EITHER for member in schema.get(name, ())]
        if not members:
            yield schema
        for member in members:
            yield from self._plain(member, depth + 1)

    def without(self, data: Value, places: Iterable[Sequence[str | int]]) -> Value:
        """Return a copy of the data without the entries that contain the paths.

        Raises:
            UnreadableError: a path is in no entry; or nothing is left of a list or mapping, up to the whole: a verdict
                of which nothing can be read does not say that nothing was found.
        """
        gone = {self._entry_of(data, place) for place in places}
        more = gone
        while more:
            holders = {entry[:-1] for entry in more}
            emptied = [holder for holder in holders if len(_at(data, holder)) == sum(e[:-1] == holder for e in gone)]
            more = {self._entry_of(data, holder) for holder in emptied} - gone
            gone |= more
        data = copy.deepcopy(data)
        _remove(data, gone)
        return data

    def _entry_of(self, data: Value, place: Sequence[str | int]) -> Path:
        entry = self.entry(data, place)
        if entry is None:
            raise UnreadableError(f"{self.named(data, place)} does not fit the schema")
        return entry


def _at(data: Value, place: Path) -> Value:
    for name in place:
        data = data[name]
    return data


def _remove(data: Value, entries: set[Path]) -> None:
    """Remove entries: the last ones of a list first, and none that is inside another one."""
    outer = [entry for entry in entries if not any(entry[:size] in entries for size in range(1, len(entry)))]
    for entry in sorted(outer, key=_rank, reverse=True):
        del _at(data, entry[:-1])[entry[-1]]


def _rank(place: Path) -> tuple[str, ...]:
    return tuple(f"{name:09d}" if isinstance(name, int) else name for name in place)


def tightened(schema: Schema) -> Schema:
    """Return a schema with every field required, no further fields, and no titles or defaults."""
    made = {
        name: _inside(name, item) for name, item in schema.items() if name not in ("title", "default", "discriminator")
    }
    if "oneOf" in made:
        made["anyOf"] = made.pop("oneOf")
    if "properties" in made:
        made["required"] = list(made["properties"])
        made.setdefault("additionalProperties", False)
    return made


def _inside(name: str, item: Value) -> Value:
    if name in ("properties", "$defs"):
        return {key: tightened(below) for key, below in item.items()}
    if name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [tightened(below) for below in item]
    if name in ("items", "additionalProperties", "propertyNames") and is_mapping(item):
        return tightened(item)
    return item


def is_strict(schema: object) -> bool:
    """Tell whether a provider can enforce a schema: most cannot for mappings and tuples.

    The rule is that of OpenAI's structured outputs: every object closed, every field required, every value typed.
    """
    if is_items(schema):
        return all(is_strict(item) for item in schema)
    if not is_mapping(schema):
        return True
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    if "prefixItems" in schema or (schema.get("type") == "array" and "items" not in schema):
        return False
    if not _says_something(schema):
        return False
    return all(is_strict(item) for item in _below(schema))


def _says_something(schema: Schema) -> bool:
    return any(name in schema for name in ("type", "$ref", "anyOf", "allOf", "enum", "const"))


def _below(schema: Schema) -> list[Value]:
    below: list[Value] = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    below += [schema[name] for name in ("anyOf", "allOf", "items") if name in schema]
    return below
