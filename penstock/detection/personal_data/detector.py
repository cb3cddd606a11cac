"""`PersonalData`: finds personal data by pattern, check sum and words nearby.

Names and postal addresses have no pattern that tells them from other text. They are `CONTEXTUAL` and need a judge.
"""

from __future__ import annotations

from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.detection.spans import Span

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, MutableMapping, Sequence

    from penstock.detection.encoded import EncodedSpans
    from penstock.detection.patterns.built_in import BuiltInRule
    from penstock.detection.patterns.matching import Finder, FinderState, Match
    from penstock.detection.patterns.rules import UserRule
    from penstock.detection.personal_data.spoken import SpokenSpans
    from penstock.engine.values.frozen import Value

EMBEDDED: tuple[str, ...] = (
    "email",
    "phone",
    "credit-card",
    "ssn",
    "api-key",
    "ip-address",
    "private-ip",
    "date-of-birth",
    "url",
    "uuid",
    "crypto-wallet",
    "iban",
    "mac",
    "device-mac",
    "national-id",
    "vehicle-id",
    "device-id",
)
"""The types that are found without a judge."""

DEFAULT: tuple[str, ...] = tuple(name for name in EMBEDDED if name not in ("url", "uuid", "private-ip", "device-mac"))
"""Those that are personal data wherever they stand. Links, UUIDs, private and devices' addresses seldom are."""

CONTEXTUAL: tuple[str, ...] = ("name", "address")
"""The types that no pattern can find reliably; they need a judge."""

_IDS_THEMSELVES = frozenset({"uuid", "url"})
_LIKE_IDS = frozenset({"random-token", "secret-value"})  # rules that know a key by its randomness, or by a label
_IN_CODES = ("url", "uuid", "mac", "device-mac", "ip-address", "private-ip")
_PRECEDENCE = (("url", "uuid"), ("api-key",))  # a link with a key in it is a key, whoever has it may come in
_HOSTED = ("url", "email")  # types whose values end in a domain, or begin with one
_STATE = "personal-data"  # the note in which a stream's state is kept


_Arguments: TypeAlias = "tuple[tuple[str, ...], tuple[UserRule, ...], frozenset[str], frozenset[str]]"


class _Tool(NamedTuple):
    """What searches texts; it keeps nothing of them, so that several guards can share it.

    Attributes:
        finder: the rules.
        types: for each of them, the type of its findings.
    """

    finder: Finder
    types: Sequence[str]


class PersonalData:
    """Searches for several types at once.

    Findings that overlap are one finding, with the type of the longest: the digits of an IBAN are not a phone number. A
    link that contains a key, though, is a key.

    Attributes:
        types: the types that are searched for.
        contextual: the types that were asked for and are not searched for here.
        lookback: how many characters before the undecided text `scan` needs to see.
    """

    def __init__(
        self,
        types: Iterable[str] = EMBEDDED,
        custom: Iterable[UserRule] = (),
        allow: Iterable[str] = (),
        countries: Iterable[str] = (),
    ) -> None:
        """Store what to search for; the rules are loaded at the first search.

        Args:
            types: any of `EMBEDDED` (the default) and `CONTEXTUAL`; other names count as contextual.
            custom: rules of your own; their names are the types of their findings. None by default.
            allow: domains, in small letters, whose links and addresses are no findings, nor those of the domains below
                them. None by default.
            countries: codes of countries, in small letters, whose national numbers count without a label, too, if their
                check digits are right. None by default.
        """
        self._asked = asked = tuple(dict.fromkeys(types))
        self._custom = tuple(custom)
        self._allow = frozenset(allow)
        self._countries = frozenset(countries)
        named = {rule.name for rule in self._custom}
        self.types = tuple(name for name in asked if name in EMBEDDED) + tuple(dict.fromkeys(named))
        self.contextual = tuple(name for name in asked if name not in self.types)

    @cached_property
    def _tool(self) -> _Tool:
        if self._custom:  # what a user's rule does is not told by its value
            return self._made_tool()
        # mypy takes the hash of a search for that of its class.
        return _shared_tool(type(self), self._asked, self._allow, self._countries)  # type: ignore[arg-type]

    def _made_tool(self) -> _Tool:
        from penstock.detection.patterns.matching import Finder, Precedence  # loaded where texts are searched

        built_in = self._built_in()
        names = [name for name, _ in built_in]
        wide, narrow = (frozenset(at for at, name in enumerate(names) if name in chosen) for chosen in _PRECEDENCE)
        finder = Finder([*(rule for _, rule in built_in), *self._custom], Precedence(wide, narrow))
        return _Tool(finder, (*names, *(rule.name for rule in self._custom)))

    @cached_property
    def _finder(self) -> Finder:
        return self._tool.finder

    @cached_property
    def _types(self) -> Sequence[str]:
        return self._tool.types

    def _built_in(self) -> Sequence[tuple[str, BuiltInRule]]:
        found = [(name, rule) for name, rules in _tables().items() if name in self.types for rule in rules]
        if self._countries and "national-id" in self.types:
            from penstock.detection.personal_data.national_ids import of_countries_alone

            found = [*(("national-id", rule) for rule in of_countries_alone(self._countries)), *found]
        if not self._allow:
            return found
        from penstock.detection.personal_data.links import without_hosts

        return [(name, without_hosts(rule, self._allow) if name in _HOSTED else rule) for name, rule in found]

    def only(self, types: Container[str]) -> PersonalData:
        """Return the search for some of the types alone."""
        custom = [rule for rule in self._custom if rule.name in types]
        return PersonalData([name for name in self._asked if name in types], custom, self._allow, self._countries)

    @cached_property
    def in_ids(self) -> PersonalData:
        """Searches ids and addresses for the same types, except those that such values are themselves.

        Keys are found there if they have the form of some provider's keys: random letters alone are usual in ids.
        """
        names = [name for name in self._asked if name not in _IDS_THEMSELVES]
        return _InIds(names, self._custom, self._allow, self._countries)

    @property
    def lookback(self) -> int:
        """How many characters before the undecided text `scan` needs to see."""
        return self._finder.lookback

    @cached_property
    def encoded(self) -> EncodedSpans:
        """Searches encoded text for the same types, except those that codes are full of anyway."""
        from penstock.detection.encoded import EncodedSpans  # loaded where texts are searched

        names = [name for name in self.types if name not in _IN_CODES]
        plain = type(self)(names, self._custom, self._allow, self._countries)
        return EncodedSpans(plain.find, plain)

    def glance(self, text: str, start: int, *, final: bool) -> int | None:
        """Return what `quiet` returns, as far as text that is not encoded is concerned."""
        return self._finder.quiet(text, start, final=final)

    @cached_property
    def spoken(self) -> SpokenSpans:
        """Searches addresses and numbers that are written as they are spoken for the same types."""
        from penstock.detection.personal_data.spoken import SpokenSpans  # loaded where it is asked for

        return SpokenSpans(self.find)

    def quiet(self, text: str, start: int, *, final: bool) -> int | None:
        """Return the place from which on more text may matter, if it is plain that nothing is found; else None.

        That holds for encoded text, too. If the text is ``final``, the place is its end. `scan` need not be called, and
        can be called later with empty ``notes``. The text before ``start`` must be `quiet`, or `is_begun` there.
        """
        held = self._finder.quiet(text, start, final=final)
        return held if held is None or held == start else self.encoded.quiet(text, start, held, final=final)

    def is_begun(self, text: str, since: int, at: int, notes: Mapping[str, Value]) -> bool:
        """Return whether `scan`, or the search of encoded text, has nothing in its notes that the text does not tell.

        They belong to the place ``at``. Then both may begin anew at ``since`` or behind it, once that is quiet.
        """
        state: FinderState | None = notes.get(_STATE)
        return not notes or (state is not None and self._finder.is_begun(text, since, at, state))

    def find(self, text: str, key: str = "") -> list[Span]:
        """Return the findings in a whole text, in order and disjoint.

        Args:
            text: the text.
            key: the name that the text is the value of, if any; it may tell the type of the text.

        Raises:
            TimeoutError: a rule of your own took longer than it may.
        """
        if not key and self._finder.sees_none(text):
            return []
        return self._found(text, key)

    def _found(self, text: str, key: str) -> list[Span]:
        return self._spans(self._finder.find(text, key))

    def scan(
        self, text: str, start: int, notes: MutableMapping[str, Value], *, final: bool, key: str = ""
    ) -> tuple[list[Span], int]:
        """Return the findings in a text that may go on, and the place from which on more text could change them.

        The spans begin at ``start`` or later. Those that end at the place or before it are decided, and are those that
        `find` returns of the whole text. The ``start`` of the next call is this place.

        Args:
            text: the last `lookback` characters of the decided text, and all that is undecided.
            start: where the undecided part begins.
            notes: one mapping for each text, empty at its beginning; the search keeps its state there.
            final: whether the text ends here.
            key: the name that the text is the value of, if the text begins at the beginning of that value.

        Raises:
            TimeoutError: a rule of your own took longer than it may.
        """
        if final and not start and _STATE not in notes:
            return self._found(text, key), len(text)
        state: FinderState = notes.get(_STATE) or self._finder.begun(text, start)
        if key and not start and not final:
            found, hold = self._finder.scan_value(text, key, state)
            if hold:
                notes[_STATE] = state
            return self._spans(found), hold
        notes[_STATE] = state
        if final:
            return self._spans(self._finder.finish(text, start, state)), len(text)
        found, hold = self._finder.scan(text, start, state)
        return self._spans(found), hold

    def _spans(self, matches: Sequence[Match]) -> list[Span]:
        """Return matches as stretches that do not overlap, each with the type of its longest match."""
        spans: list[Span] = []
        longest = reach = 0
        for start, end, rule, _ in sorted(matches, key=_place):
            size = end - start
            if start >= reach:
                spans.append(Span(start, end, self._types[rule]))
                longest, reach = size, end
                continue
            reach = max(reach, end)
            owner = self._types[rule] if size > longest else spans[-1].type
            spans[-1] = Span(spans[-1].start, reach, owner)
            longest = max(size, longest)
        return spans

    def __eq__(self, other: object) -> bool:
        """Return whether both search for the same."""
        if not isinstance(other, PersonalData):
            return False
        return self.types == other.types and self.__reduce__()[1][1:] == other.__reduce__()[1][1:]

    def __reduce__(self) -> tuple[type[PersonalData], _Arguments]:
        """Return its constructor's arguments, without the rules, which are loaded again."""
        return PersonalData, (self._asked, self._custom, self._allow, self._countries)

    def __hash__(self) -> int:
        """Hash by the types."""
        return hash(self.types)

    def __repr__(self) -> str:
        """Show the types that are searched for."""
        return f"PersonalData({', '.join(self.types)})"


class _InIds(PersonalData):
    """Searches ids and addresses, in which random letters are no key."""

    def _built_in(self) -> Sequence[tuple[str, BuiltInRule]]:
        return [(name, rule) for name, rule in super()._built_in() if rule.name not in _LIKE_IDS]


_MOST_TOOLS = 64  # choices of types in one process, of which the tools are kept


@lru_cache(_MOST_TOOLS)
def _shared_tool(
    search: type[PersonalData], asked: tuple[str, ...], allow: frozenset[str], countries: frozenset[str]
) -> _Tool:
    """Return the tool of all searches with the same arguments: to sort their triggers takes 2 ms."""
    return search(asked, (), allow, countries)._made_tool()  # pyright: ignore[reportPrivateUsage]


def _place(match: Match) -> tuple[int, int, int]:
    return (match.start, -match.end, match.rule)


@cache
def _tables() -> Mapping[str, tuple[BuiltInRule, ...]]:
    """Return the rules by type."""
    from penstock.detection.personal_data.birth_dates import BIRTHS
    from penstock.detection.personal_data.links import LINKS
    from penstock.detection.personal_data.national_ids import DEVICE_IDS, NATIONAL_IDS, VEHICLE_IDS
    from penstock.detection.personal_data.pii_rules import (
        ADDRESSES,
        CUED_CARDS,
        CUED_IBANS,
        DEVICE_MACS,
        MACS,
        PII,
        PRIVATE_ADDRESSES,
        UUIDS,
    )
    from penstock.detection.personal_data.wallets import WALLETS
    from penstock.detection.secrets import SECRETS

    pii = {name: tuple(rule for rule in PII if rule.name == name) for name in ("email", "phone", "credit-card", "ssn")}
    return {
        "ssn": pii["ssn"],
        "national-id": NATIONAL_IDS,
        "vehicle-id": VEHICLE_IDS,
        "device-id": DEVICE_IDS,
        **pii,
        "credit-card": (*pii["credit-card"], *CUED_CARDS),
        "iban": (*(rule for rule in PII if rule.name == "iban"), *CUED_IBANS),
        "ip-address": ADDRESSES,
        "private-ip": PRIVATE_ADDRESSES,
        "date-of-birth": BIRTHS,
        "url": LINKS,
        "uuid": UUIDS,
        "crypto-wallet": WALLETS,
        "mac": MACS,
        "device-mac": DEVICE_MACS,
        "api-key": SECRETS,
    }
