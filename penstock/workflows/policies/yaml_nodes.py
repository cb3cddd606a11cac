"""Read a YAML or JSON text into nodes that know where they stand. Nothing of it is executed or fetched.

The events of PyYAML become nodes here, so that each keeps its place, duplicate keys are found, scalars mean what
YAML 1.2 says, and the size is bounded before a value is made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import yaml

from penstock.workflows.policies.files import MOST_BYTES, file_bytes
from penstock.workflows.policies.problems import FilePlace, Problems, StopReadingError
from penstock.workflows.policies.scalars import Plain, plain_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value
    from penstock.workflows.policies.files import FileState

MOST_NODES = 100_000
"""How many nodes a file may have, each alias counted with all that it stands for."""
DEEPEST = 60
"""How many levels of lists and mappings may lie within each other."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A single value. ``quoted``: it stands in quotes or as a block, so that it is text."""

    place: FilePlace
    text: str
    quoted: bool = False

    @property
    def value(self) -> Plain:
        """The value: the text itself if it was quoted."""
        return self.text if self.quoted else plain_value(self.text)


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list of nodes."""

    place: FilePlace
    items: tuple[PolicyNode, ...] = ()


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping: for each key the node of the key and that of its value."""

    place: FilePlace
    entries: dict[str, tuple[ScalarNode, PolicyNode]] = field(
        default_factory=dict[str, "tuple[ScalarNode, PolicyNode]"]
    )

    def get(self, key: str) -> PolicyNode | None:
        """Return the value of a key; None if it is missing."""
        found = self.entries.get(key)
        return None if found is None else found[1]

    def key_place(self, key: str) -> FilePlace:
        """Return where a key stands; the mapping's own place if it is missing."""
        found = self.entries.get(key)
        return self.place if found is None else found[0].place


PolicyNode: TypeAlias = "ScalarNode | ListNode | MappingNode"
"""A node of a policy file."""


def text_of_bytes(data: bytes, file: str, problems: Problems) -> str | None:
    """Return the text of a file in UTF-8, with or without a byte order mark; None if it is none, which is told."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        problems.add(_place_behind(before, file), "a byte here is no UTF-8; save the file as UTF-8")
        return None


def text_of_file(name: str, place: FilePlace, problems: Problems, files: dict[str, FileState | None]) -> str | None:
    """Return the text of a file; None if it cannot be read, which is then among the problems.

    Args:
        name: the file.
        place: where it is named.
        problems: takes the problems.
        files: takes its state when it was read; None if it could not be read.
    """
    files[name] = None
    try:
        data, files[name] = file_bytes(name)
    except OSError as error:
        problems.add(place, f"{name} cannot be read: {error.strerror or error}")
        return None
    except ValueError as error:  # of a name with a NUL
        problems.add(place, f"{name!r} cannot be read: {error}")
        return None
    return text_of_bytes(data, name, problems)


def read_nodes(text: str, file: str, problems: Problems) -> PolicyNode | None:
    """Return the root of a YAML or JSON text; None if it cannot be read, which is then among the problems.

    Args:
        text: the text.
        file: the name of the file, for places.
        problems: takes the problems.
    """
    if not _is_readable(text, file, problems):
        return None
    known = len(problems)
    is_json = file.endswith(".json")
    if is_json:
        _check_json(text, file, problems)
    if len(problems) > known:
        return None
    written = _as_yaml(text) if is_json else text
    try:
        root = _Composer(written, file, problems).composed()
    except yaml.YAMLError as error:
        place = _place_of_error(error, file)
        line = text.splitlines()[place.line - 1 : place.line]
        hint = "; within [] and {}, write ${NAME} in quotes" if line and "${" in line[0] else ""
        problems.add(place, f"this is no valid {_form(file)}: {_words_of(error)}{hint}")
        return None
    if root is None and len(problems) == known:
        problems.add(FilePlace(file), "the file is empty; its first line is `penstock: 1`")
    return root


def _is_readable(text: str, file: str, problems: Problems) -> bool:
    """Return whether a text is short enough, and has only characters that YAML allows; if not, it is told."""
    wrong = _NO_YAML.search(text)
    if wrong is not None:
        code = ord(wrong[0])
        kind = "half of a character (a lone surrogate)" if 0xD800 <= code <= 0xDFFF else "a control character"  # noqa: PLR2004 - the range
        problems.add(_place_behind(text[: wrong.start()], file), f"{kind} stands here, U+{code:04X}; remove it")
    elif len(text.encode()) > MOST_BYTES:
        message = f"the file is longer than {MOST_BYTES:,} bytes; split it, and name the parts under include:"
        problems.add(FilePlace(file), message)
    else:
        return True
    return False


_NO_YAML = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _place_behind(before: str, file: str) -> FilePlace:
    return FilePlace(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def plain_data(node: PolicyNode) -> Value:
    """Return the value of a node as plain data: dicts, lists, strings, numbers, bools and None."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, ListNode):
        return [plain_data(item) for item in node.items]
    return {key: plain_data(value) for key, (_, value) in node.entries.items()}


def places(node: PolicyNode) -> Iterator[FilePlace]:
    """Yield the places of the single values within a node."""
    if isinstance(node, ScalarNode):
        yield node.place
    else:
        for item in node.items if isinstance(node, ListNode) else [value for _, value in node.entries.values()]:
            yield from places(item)


class _Composer:
    """Makes nodes of the events of PyYAML's parser."""

    def __init__(self, text: str, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._events: Iterator[Value] = iter(yaml.parse(text, Loader=_Loader))
        self._anchors: dict[str, tuple[PolicyNode, int, int] | None] = {}
        self._count = 0

    def composed(self) -> PolicyNode | None:
        root = None
        documents = 0
        try:
            for event in self._events:
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self._problems.add(self._place(event), "a second document begins here; a policy file has one")
                        return root
                elif isinstance(event, yaml.NodeEvent):
                    root, _ = self._node(event, 0)
        except StopReadingError:
            return None
        return root

    def _place(self, event: Value) -> FilePlace:
        return FilePlace(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Value, depth: int) -> tuple[PolicyNode, int]:
        """Return the node that begins with an event, and how many levels lie within it."""
        place = self._place(event)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(str(event.anchor), place, depth)
        self._counted(1, place)
        self._check_depth(depth, place)
        if event.tag not in (None, "!"):
            self._problems.add(place, f"the tag {event.tag} is not read; write the value without a tag")
        anchor, before = event.anchor, self._count
        if anchor is not None:
            self._anchors[anchor] = None  # an alias within it would never end
        node, inside = self._made(event, place, depth)
        if anchor is not None:
            self._anchors[anchor] = (node, self._count - before + 1, inside)
        return node, inside

    def _made(self, event: Value, place: FilePlace, depth: int) -> tuple[PolicyNode, int]:
        if isinstance(event, yaml.ScalarEvent):
            return ScalarNode(place, event.value, bool(event.style) or event.tag == "!"), 0
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(place, depth)
        return self._mapping(place, depth)

    def _list(self, place: FilePlace, depth: int) -> tuple[ListNode, int]:
        made = [self._node(event, depth + 1) for event in iter(self._next, None)]
        return ListNode(place, tuple(node for node, _ in made)), 1 + max((inside for _, inside in made), default=0)

    def _mapping(self, place: FilePlace, depth: int) -> tuple[MappingNode, int]:
        entries: dict[str, tuple[ScalarNode, PolicyNode]] = {}
        deepest = 0
        for event in iter(self._next, None):
            key, _ = self._node(event, depth + 1)
            value, inside = self._node(self._next(), depth + 1)
            deepest = max(deepest, inside)
            self._enter(entries, key, value)
        return MappingNode(place, entries), 1 + deepest

    def _enter(self, entries: dict[str, tuple[ScalarNode, PolicyNode]], key: PolicyNode, value: PolicyNode) -> None:
        if not isinstance(key, ScalarNode):
            self._problems.add(key.place, "a key must be a name, not a list or a mapping")
        elif key.text == "<<" and not key.quoted:
            self._problems.add(key.place, "the key << does not merge in YAML 1.2; write the keys, or use include:")
        elif key.text in entries:
            first = entries[key.text][0].place.line
            self._problems.add(key.place, f"{key.text} stands here twice, first in line {first}; remove one of them")
        else:
            entries[key.text] = (key, value)

    def _next(self) -> Value:
        """Return the next event; None at the end of a list or a mapping."""
        event = next(self._events)
        return None if isinstance(event, yaml.CollectionEndEvent) else event

    def _aliased(self, anchor: str, place: FilePlace, depth: int) -> tuple[PolicyNode, int]:
        if anchor not in self._anchors:
            self._problems.add(place, f"no anchor &{anchor} stands before this alias; {self._known_anchors()}")
            return ScalarNode(place, ""), 0
        known = self._anchors[anchor]
        if known is None:
            self._problems.add(place, f"the alias *{anchor} stands within what it stands for; it would never end")
            return ScalarNode(place, ""), 0
        node, count, inside = known
        self._counted(count, place)
        self._check_depth(depth + inside, place)
        return node, inside

    def _known_anchors(self) -> str:
        return f"there are {', '.join(f'&{name}' for name in self._anchors)}" if self._anchors else "there is none"

    def _counted(self, count: int, place: FilePlace) -> None:
        self._count += count
        if self._count > MOST_NODES:
            message = f"the file has more than {MOST_NODES:,} values, each alias counted in full; make it smaller"
            self._problems.add(place, message)
            raise StopReadingError

    def _check_depth(self, depth: int, place: FilePlace) -> None:
        if depth > DEEPEST:
            self._problems.add(place, f"lists and mappings are nested deeper than {DEEPEST} levels; write them flatter")
            raise StopReadingError


# The parser of libyaml is ten times as fast; PyYAML can be built without it.
_Loader: Value = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _check_json(text: str, file: str, problems: Problems) -> None:
    """Add the faults of a text as JSON; YAML takes more.

    The nodes still come from YAML, since `json` forgets where values stand.
    """
    try:
        json.loads(text.removeprefix("\ufeff"), parse_int=str, parse_float=str, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        problems.add(FilePlace(file, error.lineno, error.colno), f"this is no valid JSON: {error.msg}")
    except ValueError as error:
        problems.add(FilePlace(file), f"this is no valid JSON: {error}")
    except RecursionError:
        problems.add(FilePlace(file), f"lists and objects are nested deeper than {DEEPEST} levels; write them flatter")


def _no_constant(name: str) -> None:
    raise ValueError(f"it has no number {name}")


def _as_yaml(text: str) -> str:
    r"""Return JSON as YAML reads it.

    Tabs cannot stand between the tokens of YAML (within strings of JSON they cannot stand at all), the two halves of a
    character (``\ud83d\ude00``) are not joined there, and three characters are line breaks there.
    """
    return _ESCAPED.sub(_joined, text.translate(_NO_JSON))


def _joined(escaped: re.Match[str]) -> str:
    return str(json.loads(f'"{escaped[0]}"')) if escaped[1] else escaped[0]


_ESCAPED = re.compile(r"\\(?:(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_NO_JSON = {ord("\t"): " ", **{ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}}


def _form(file: str) -> str:
    return "JSON" if file.endswith(".json") else "YAML"


def _place_of_error(error: yaml.YAMLError, file: str) -> FilePlace:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return FilePlace(file) if mark is None else FilePlace(file, mark.line + 1, mark.column + 1)


def _words_of(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"a character in it may not stand in YAML: {error.reason}"
    parts = (getattr(error, "problem", None), getattr(error, "context", None))
    return " ".join(" ".join(str(part).split()) for part in parts if part) or type(error).__name__
