"""`OwnerWords`: the options ``fields`` and ``allow`` of guards, which overrule their findings.

``fields`` maps paths in JSON to a type, or to None where nothing is to be found. ``allow`` lists values, patterns,
kinds, domains and functions of values that are no findings.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from penstock.detection.places.allowed import EXAMPLE_DOMAINS, KINDS, host_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.engine.values.json_text import JsonReader
from penstock.engine.values.texts import LEAST_NUMBER, KeyText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Found, TextWindow

F = TypeVar("F", bound="Found")


@runtime_checkable
class ValuePattern(Protocol):
    """A compiled pattern, of ``re`` or of ``regex``."""

    def fullmatch(self, string: str, /) -> object:
        """Return something if the whole string matches."""
        ...


Fields: TypeAlias = Mapping[str, str | None]
Allowed: TypeAlias = "str | ValuePattern | Callable[[str], bool]"

_PATH = re.compile(r"[^.]+(?:\.[^.]+)*")
_A_DOMAIN = re.compile(r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)*")
_HOSTED = ("email", "url")
_CLOSE = 0.8
_UNKNOWN = ""
_READER, _FED = "owner.json", "owner.fed"


@dataclass(frozen=True)
class OwnerWords:
    """The options ``fields`` and ``allow`` of a guard, checked.

    Attributes:
        fields: the type of the value at each path, or None for no finding.
        allow: the values that are no findings.
    """

    fields: tuple[tuple[str, str | None], ...] = ()
    allow: tuple[Allowed, ...] = ()

    @property
    def types(self) -> tuple[str, ...]:
        """The types that fields have."""
        return tuple(dict.fromkeys(type for _, type in self.fields if type is not None))

    @property
    def domains(self) -> tuple[str, ...]:
        """The entries that are domains, in small letters."""
        named = [one.lower() for one in self.allow if isinstance(one, str) and one not in KINDS]
        examples = EXAMPLE_DOMAINS if "example-domain" in self.allow else ()
        return tuple(one for one in (*named, *examples) if _A_DOMAIN.fullmatch(one))

    @property
    def least_number(self) -> int:
        """The smallest number in a JSON value that must be read: any, if a field gives its type."""
        return 0 if self.types else LEAST_NUMBER

    def __bool__(self) -> bool:
        """Return whether anything is said."""
        return bool(self.fields or self.allow)

    def applied(
        self,
        window: TextWindow,
        found: Sequence[F],
        until: int,
        named: Callable[[F], str],
        made: Callable[[int, int, str], F],
        ctx: AnyContext,
    ) -> tuple[list[F], int]:
        """Return the findings that count in a window, and the position from which text is held back.

        Args:
            window: the window.
            found: the findings in it.
            until: up to where the findings are decided.
            named: returns the type of a finding.
            made: makes a finding between two positions, of a type.
            ctx: the context of the call; its record gets the number of findings that were allowed, by type.
        """
        if not self:
            return [*found], until
        known, until = self._spans(window, until) if self.fields else ([], until)
        counted: list[F] = []
        allowed: Counter[str] = Counter()
        for item in found:
            if item.end > until and not window.final:
                continue
            around = next((one for one in known if one[0] <= item.start and item.end <= one[1]), None)
            type = named(item)
            if (around is not None and around[2] is None) or (
                around is None and item.start < item.end and self.allows(type, window.text[item.start : item.end])
            ):
                allowed[type] += 1
            elif around is None:
                counted.append(item)
        counted += [made(start, end, type) for start, end, type in known if type is not None]
        if allowed and not window.separate:
            _count(ctx, allowed)
        return sorted(counted, key=lambda item: (item.start, item.end)), until

    def allows(self, type: str, text: str) -> bool:
        """Return whether a value of a type is no finding.

        Args:
            type: the type.
            text: the value.
        """
        host = host_of(text) if type in _HOSTED else ""
        for entry in self.allow:
            if isinstance(entry, str):
                kind = KINDS.get(entry)
                if kind is not None:
                    is_allowed = kind(text)
                elif len(entry) > 2 and entry[0] == entry[-1] == "/":  # noqa: PLR2004 - two slashes
                    is_allowed = re.fullmatch(entry[1:-1], text) is not None
                else:
                    domain = entry.lower()
                    is_allowed = text.casefold() == entry.casefold() or (
                        host != "" and (host == domain or host.endswith(f".{domain}"))
                    )
            elif isinstance(entry, ValuePattern):
                is_allowed = entry.fullmatch(text) is not None
            else:
                is_allowed = bool(entry(text))
            if is_allowed:
                return True
        return False

    # Fields

    def _spans(self, window: TextWindow, until: int) -> tuple[list[tuple[int, int, str | None]], int]:
        """Return the stretches of a window that fields describe, and the position up to which text is decided."""
        keys, is_key = _keys_of(window)
        known = self._at(keys) if keys else _UNKNOWN
        if known is None or (known and not is_key):
            if known and not window.final:
                return [], window.start
            return [(0 if known is None else window.start, len(window.text), known)], until
        return self._json_spans(window, until, keys)

    def _json_spans(
        self, window: TextWindow, until: int, keys: tuple[str, ...]
    ) -> tuple[list[tuple[int, int, str | None]], int]:
        reader = _read(window)
        if not window.final:
            until = min(until, max(reader.uncut(until + window.base) - window.base, window.start))
        spans: list[tuple[int, int, str | None]] = []
        for token in reader.tokens:
            start, end = token.start - window.base, token.end - window.base
            known = self._at((*keys, *token.path), token.path)
            if known == _UNKNOWN or end <= window.start:
                continue
            if known is None:
                spans.append((start, end, None))
            elif token.kind != "key" and not window.final and start < until and (token.open or end > until):
                until = max(start, window.start)
            elif token.kind != "key" and start < end and (end <= until or window.final):
                spans.append((start, end, known))
        return [one for one in spans if one[2] is None or one[1] <= until or window.final], until

    def _at(self, *paths: tuple[str, ...]) -> str | None:
        """Return the type at a path by the most precise field; an empty text if no field describes it.

        A field speaks for all that stands below it. Several paths are names of one place.
        """
        best, found = -1, cast("str | None", _UNKNOWN)
        for field, type in self.fields:
            steps = tuple(field.casefold().split("."))
            precise = sum(step != "*" for step in steps)
            if precise >= best and any(_leads(steps, path) for path in paths if path):
                best, found = precise, type
        return found


def _leads(steps: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether steps lead to a path, or to something that it stands in; ``*`` stands for any number of steps."""
    if not steps:
        return True
    if steps[0] == "*":
        return any(_leads(steps[1:], path[at:]) for at in range(len(path) + (len(steps) == 1)))
    return bool(path) and steps[0] == path[0].casefold() and _leads(steps[1:], path[1:])


def _keys_of(window: TextWindow) -> tuple[tuple[str, ...], bool]:
    """Return the keys that lead to the text of a window within its value, and whether it is a key itself."""
    path = window.locate(window.start)[0].path
    is_key = bool(path) and isinstance(path[-1], KeyText)
    rest = path[1:-1] if is_key else path[1:]
    if path[:1] == ("payload",) and rest:
        if rest[0] not in _FIELDS:  # what belongs to the chunk itself, such as the name of a tool
            return (), False
        rest = rest[1:]
    if path[:1] == ("metadata",):
        return (), False
    return tuple(step for step in rest if isinstance(step, str) and not isinstance(step, KeyText)), is_key


_FIELDS = ("arguments", "args", "input", "result", "output", "object", "data", "error")
"""The keys of a chunk's payload under which a value stands."""


def _read(window: TextWindow) -> JsonReader:
    """Return the reader of a text, which has read to the end of the window."""
    reader = cast("JsonReader | None", window.notes.get(_READER))
    if reader is None:
        reader = JsonReader(window.base)
        window.notes[_FED] = window.base
    end = window.base + len(window.text)
    borders = [part.start for part in window.parts if cast("int", window.notes[_FED]) < part.start <= end]
    for border in (*borders, end):
        at: int = window.notes[_FED]
        reader.feed(window.text[at - window.base : border - window.base], final=border != end or window.final)
        if border != end:
            reader.begin_part()
        window.notes[_FED] = border
    reader.forget(window.base + window.start)
    window.notes[_READER] = reader
    return reader


def _count(ctx: AnyContext, counts: Counter[str]) -> None:
    """Add counts to those that the record has of this call, in a stream to those of the run."""
    kept: Mapping[str, int] = EMPTY
    if STAGES[ctx.stage].streams and is_mapping(ctx.state):
        kept = ctx.state.get(_COUNTS, EMPTY)
    elif ctx.effects is not None and ctx.effects.notes:
        kept = ctx.effects.notes.get("allowed", EMPTY)
    sums = dict(Counter(kept) + counts)
    if STAGES[ctx.stage].streams and is_mapping(ctx.state):
        ctx.state[_COUNTS] = sums
    ctx.note(allowed=sums)


_COUNTS = "penstock.allowed"


# Options


def owner_words(guard: str, fields: object, allow: object) -> OwnerWords:
    """Return the options ``fields`` and ``allow``, checked.

    Raises:
        OptionError: one is not allowed.
    """
    return OwnerWords(_checked_fields(guard, fields), _checked_allow(guard, allow))


def _checked_fields(guard: str, given: object) -> tuple[tuple[str, str | None], ...]:
    fits = "a mapping of paths, such as 'customer.phone' or '*.cursor', to the name of a type or None"
    if not is_mapping(given):
        raise OptionError(guard, "fields", type(given).__name__, fits)
    for path, type_ in given.items():
        if not isinstance(path, str) or _PATH.fullmatch(path) is None:
            raise OptionError(guard, "fields", path, fits)
        if type_ is not None and (not isinstance(type_, str) or not type_.strip()):
            raise OptionError(guard, f"fields[{path!r}]", type_, "the name of a type, such as 'phone', or None")
    return tuple(given.items())


def _checked_allow(guard: str, given: object) -> tuple[Allowed, ...]:
    listed = (
        [given] if isinstance(given, str) or not isinstance(given, Iterable) else [*cast("Iterable[object]", given)]
    )
    made: list[Allowed] = []
    for entry in listed:
        if not (isinstance(entry, (str, ValuePattern)) or callable(entry)) or not entry:
            fits = f"values, /patterns/, domains, functions, or kinds: {', '.join(KINDS)}"
            raise OptionError(guard, "allow", entry, fits)
        if isinstance(entry, str) and entry not in KINDS:
            _check_text(guard, entry)
        made.append(cast("Allowed", entry))
    return tuple(made)


def _check_text(guard: str, entry: str) -> None:
    if entry[0] == entry[-1] == "/" and len(entry) > 1:
        try:
            re.compile(entry[1:-1])
        except re.error as error:
            raise OptionError(guard, "allow", entry, f"patterns that compile: {error}") from None
    close = difflib.get_close_matches(entry, KINDS, n=1, cutoff=_CLOSE)
    if close:
        raise OptionError(guard, "allow", entry, f"the kind {close[0]!r}, or a value that is less like one")
