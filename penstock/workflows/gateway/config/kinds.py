"""Kinds of values in a gateway file: each is read and checked, and described by a JSON Schema, in one place."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit

from penstock.workflows.gateway.secret import Secret
from penstock.workflows.policies.fields import list_of, mapping_of, seconds_of, text_of, whole_of, word_of
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.frozen import Value
    from penstock.workflows.policies.problems import FilePlace, Problems
    from penstock.workflows.policies.yaml_nodes import PolicyNode

    Json: TypeAlias = dict[str, Value]

T = TypeVar("T")


class ValueKind(Protocol):
    """A kind of value."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> object:
        """Return the value of a node; None if it is none of this kind, which is then among the problems."""
        ...

    def schema(self) -> Json:
        """Return its JSON Schema."""
        ...


def entry(kind: ValueKind, doc: str, default: object = MISSING) -> Value:
    """Return the field of a section of the file.

    Args:
        kind: the kind of its value.
        doc: its meaning, for readers of the JSON Schema.
        default: its value if it is left out. A list, a dict or a class is called for each section. Without a default,
            the key is required.
    """
    told = {"kind": kind, "doc": doc}
    if isinstance(default, type):
        return field(default_factory=default, metadata=told)
    return field(default=default, metadata=told)


@dataclass(frozen=True, kw_only=True)
class FileSection:
    """The base of sections: dataclasses whose fields are made by `entry`.

    Attributes:
        places: where each key stands, and under the empty name the section itself; for faults that are found later.
    """

    places: Mapping[str, FilePlace] = field(default_factory=dict[str, "FilePlace"], compare=False, repr=False)


def entries_of(section: type[FileSection]) -> dict[str, Field[object]]:
    """Return the keys of a section."""
    return {one.name: one for one in fields(cast("type[Value]", section)) if "kind" in one.metadata}


class TextValue:
    """A text that is not blank."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> str | None:
        """Return the text."""
        return text_of(node, what, problems)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "string", "minLength": 1}


class Pattern(TextValue):
    """A text of which the whole must match a pattern.

    Args:
        pattern: the pattern.
        meaning: the texts that it allows, in words.
    """

    def __init__(self, pattern: str, meaning: str) -> None:
        self._pattern = re.compile(pattern)
        self._meaning = meaning

    def read(self, node: PolicyNode, what: str, problems: Problems) -> str | None:
        """Return the text."""
        found = text_of(node, what, problems)
        if found is not None and self._pattern.fullmatch(found) is None:
            problems.add(node.place, f"{what} must be {self._meaning}")
            return None
        return found

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "string", "pattern": f"^(?:{self._pattern.pattern})$"}


class Url(TextValue):
    """An address of HTTP without a user and a password."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> str | None:
        """Return the address."""
        found = text_of(node, what, problems)
        fault = None if found is None else fault_of_url(found)
        if fault is not None:
            problems.add(node.place, f"{what} {fault}")
            return None
        return found

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "string", "pattern": r"^https?://|\$\{"}


def fault_of_url(given: str) -> str | None:
    """Return the fault of a provider's address; None if it has none. The fault does not quote the address."""
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no URL; write https://host/v1"
    if parts.scheme not in ("http", "https") or not host:
        return "must be a URL with http:// or https:// and a host"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or a password; name the variable with the key under key_env:"
    return "must not have a fragment (#…)" if parts.fragment else None


class StoreUrl:
    """The address of a server that replicas share. It may hold a password, so it is read as a `Secret`."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> Secret | None:
        """Return the address."""
        found = text_of(node, what, problems)
        if found is not None and found.partition("://")[0] not in STORE_SCHEMES:
            problems.add(
                node.place, f"{what} must be an address such as valkey://host:6379/0 or postgresql://host/database"
            )
            return None
        return None if found is None else Secret(found)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "string", "pattern": _STORE_PATTERN}


class RunStoreAddress:
    """The address of a store of requests that wait. It may hold a password, so it is read as a `Secret`."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> Secret | None:
        """Return the address."""
        found = text_of(node, what, problems)
        scheme = None if found is None or "://" not in found else found.partition("://")[0]
        if scheme not in (None, "postgres", "postgresql", "sqlite"):
            problems.add(node.place, f"{what} must be the path of a file (SQLite), or postgresql://host/database")
            return None
        return None if found is None else Secret(found)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "string", "minLength": 1}


class LedgerName:
    """The ledger of a budget: ``memory``, ``module:name``, or the address of a server."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> str | Secret | None:
        """Return the name, or the address."""
        if not isinstance(node, ScalarNode) or "://" in node.text:
            return StoreUrl().read(node, what, problems)
        found = text_of(node, what, problems)
        if found is not None and re.fullmatch(rf"memory|{_MODULE}", found) is None:
            problems.add(node.place, f"{what} must be memory, module:name of a CostLedger, or the address of a server")
            return None
        return found

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "string", "pattern": rf"^(?:memory|{_MODULE})$|{_STORE_PATTERN}"}


STORE_SCHEMES = frozenset({"postgres", "postgresql", "redis", "rediss", "unix", "valkey", "valkeys"})
_STORE_PATTERN = rf"^(?:{'|'.join(sorted(STORE_SCHEMES))})://|\$\{{"
_MODULE = r"[\w.]+:[\w.]+"


class OneWord(TextValue):
    """One of some words.

    Args:
        allowed: the words.
    """

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed

    def read(self, node: PolicyNode, what: str, problems: Problems) -> str | None:
        """Return the word."""
        return word_of(node, what, self._allowed, problems)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"enum": [*self._allowed]}


class Flag:
    """True or false."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> bool | None:
        """Return the bool."""
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        problems.add(node.place, f"{what} must be true or false")
        return None

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "boolean"}


class Whole:
    """A whole number.

    Args:
        least: the lowest one.
        most: the highest one.
    """

    def __init__(self, least: int = 0, most: int = 2**53) -> None:
        self._least = least
        self._most = most

    def read(self, node: PolicyNode, what: str, problems: Problems) -> int | None:
        """Return the number."""
        found = whole_of(node, what, problems)
        if found is not None and not self._least <= found <= self._most:
            problems.add(node.place, f"{what} must be a whole number from {self._least} to {self._most}")
            return None
        return found

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "integer", "minimum": self._least, "maximum": self._most}


class PositiveNumber:
    """A number above 0.

    Args:
        most: the highest one.
    """

    def __init__(self, most: float = 1e12) -> None:
        self._most = most

    def read(self, node: PolicyNode, what: str, problems: Problems) -> float | None:
        """Return the number."""
        value = node.value if isinstance(node, ScalarNode) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= self._most:
            return float(value)
        problems.add(node.place, f"{what} must be a number above 0, at most {self._most:g}")
        return None

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "number", "exclusiveMinimum": 0, "maximum": self._most}


class Seconds:
    """A time: ``2s``, ``500ms``, ``1.5m``, ``1h``, or a number of seconds."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> float | None:
        """Return the time in seconds."""
        return seconds_of(node, what, problems)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        text = {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h)\s*$|\$\{"}
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, text]}


_SIZE = re.compile(r"(\d+)\s*(kB|MB|GB)?")
_UNITS = {None: 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


class Size:
    """A number of bytes, such as ``20MB``."""

    def read(self, node: PolicyNode, what: str, problems: Problems) -> int | None:
        """Return the number of bytes."""
        found = _SIZE.fullmatch(node.text.strip()) if isinstance(node, ScalarNode) else None
        size = 0 if found is None else int(found[1]) * _UNITS[found[2]]
        if not 0 < size <= 100 * _UNITS["GB"]:
            problems.add(node.place, f"{what} must be a size above 0, such as 500kB or 20MB")
            return None
        return size

    def schema(self) -> Json:
        """Return its JSON Schema."""
        text = {"type": "string", "pattern": r"^\s*\d+\s*(kB|MB|GB)?\s*$|\$\{"}
        return {"anyOf": [{"type": "integer", "minimum": 1}, text]}


class ListOf:
    """A list of values of a kind, or a single one.

    Args:
        kind: the kind.
    """

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind

    def read(self, node: PolicyNode, what: str, problems: Problems) -> tuple[object, ...] | None:
        """Return the values."""
        items = list_of(node, what, problems) if isinstance(node, ListNode) else (node,)
        found = [self._kind.read(item, what, problems) for item in items]
        return None if None in found else tuple(found)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        one = self._kind.schema()
        return {"anyOf": [{"type": "array", "items": one}, one]}


class MapOf:
    """A mapping from names to values of a kind.

    Args:
        kind: the kind.
    """

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind

    def read(self, node: PolicyNode, what: str, problems: Problems) -> dict[str, object] | None:
        """Return the values by name."""
        if not isinstance(node, MappingNode):
            problems.add(node.place, f"{what} must be a mapping of names to values")
            return None
        found = {name: self._kind.read(value, f"{what} {name}", problems) for name, (_, value) in node.entries.items()}
        return None if None in found.values() else found

    def schema(self) -> Json:
        """Return its JSON Schema."""
        return {"type": "object", "additionalProperties": self._kind.schema()}


class OneSection:
    """A section: a mapping with known keys.

    Args:
        section: its class.
        short: the key that a single text stands for: ``upstream: openai`` for ``upstream: {name: openai}``. None: a
            section must be a mapping.
    """

    def __init__(self, section: type[FileSection], *, short: str | None = None) -> None:
        self._section = section
        self._short = short

    def read(self, node: PolicyNode, what: str, problems: Problems) -> FileSection | None:
        """Return the section."""
        if isinstance(node, ScalarNode) and self._short is not None:
            node = MappingNode(node.place, {self._short: (node, node)})
        return read_section(self._section, node, what, problems)

    def schema(self) -> Json:
        """Return its JSON Schema."""
        made = section_schema(self._section)
        return made if self._short is None else {"anyOf": [{"type": "string"}, made]}


S = TypeVar("S", bound=FileSection)


def read_section(section: type[S], node: PolicyNode, what: str, problems: Problems) -> S | None:
    """Return a section of the file; None if it has faults, which are then among the problems.

    Args:
        section: the class of the section.
        node: its node.
        what: its name, for faults.
        problems: takes the faults.
    """
    known = len(problems)
    entries = entries_of(section)
    mapping = mapping_of(node, what, entries, problems)
    if mapping is None:
        return None
    values: dict[str, Value] = {}
    for name, one in entries.items():
        given = mapping.get(name)
        if given is not None:
            values[name] = one.metadata["kind"].read(given, name, problems)
        elif one.default is MISSING and one.default_factory is MISSING:
            problems.add(node.place, f"{what} needs the key {name}: {one.metadata['doc']}")
    if len(problems) > known:
        return None
    made = section(**values)
    object.__setattr__(made, "places", {"": node.place, **{name: mapping.key_place(name) for name in values}})
    return made


def section_schema(section: type[FileSection]) -> Json:
    """Return the JSON Schema of a section."""
    entries = entries_of(section)
    required = [name for name, one in entries.items() if one.default is MISSING and one.default_factory is MISSING]
    properties = {
        name: {**one.metadata["kind"].schema(), "description": one.metadata["doc"], **_default(one)}
        for name, one in entries.items()
    }
    made: Json = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**made, "required": required} if required else made


def _default(one: Field[object]) -> Json:
    plain = isinstance(one.default, (str, int, float, bool)) and one.default != ""
    return {"default": one.default} if plain else {}
