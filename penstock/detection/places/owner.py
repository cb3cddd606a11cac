"""`OwnerWords`: the options ``fields`` and ``allow`` of guards, which overrule their findings.

``fields`` maps paths in JSON and columns of tables to a type, or to None where nothing is to be found. ``allow`` lists
values, patterns, kinds, domains and functions of values that are no findings.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from penstock.detection.deferred import deferred
from penstock.detection.places.allowed import EXAMPLE_DOMAINS, KINDS, host_of
from penstock.detection.places.fields import FieldPaths, is_hidden
from penstock.engine.text_guards.reporting import note_counts
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.texts import LEAST_NUMBER

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

_PATH = deferred(r"[^.]+(?:\.[^.]+)*")
_A_DOMAIN = deferred(r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)*")
_HOSTED = ("email", "url")
_CLOSE = 0.8


@dataclass(frozen=True)
class OwnerWords:
    """The options ``fields`` and ``allow`` of a guard, checked.

    Attributes:
        fields: the type of the value at each path, or None for no finding.
        allow: the values that are no findings.
    """

    fields: tuple[tuple[str, str | None], ...] = ()
    allow: tuple[Allowed, ...] = ()

    @cached_property
    def _paths(self) -> FieldPaths:
        return FieldPaths(self.fields)

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
        known, until = self._paths.spans(window, found, until) if self.fields else ([], until)
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
        counted += [
            made(start, end, type)
            for start, end, type in known
            if type is not None and not is_hidden(type, window.text[start:end])
        ]
        if allowed and not window.separate:
            note_counts(ctx, "allowed", allowed)
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
