"""The types of personal data that a guard looks for, a user's own among them, and a judge's verdict about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from penstock.detection.personal_data.detector import CONTEXTUAL, EMBEDDED, PersonalData
from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError
from penstock.processors.guards.findings import Said
from penstock.processors.guards.readings import UNLISTED
from penstock.processors.guards.redaction import Method

if TYPE_CHECKING:
    from penstock.detection.patterns.rules import Pattern, UserRule
    from penstock.processors.guards.pii_verdict import PIIVerdict

_DOUBTFUL = ("date-of-birth",)  # found by words nearby alone, so a judge is asked, too
_METHODS: tuple[str, ...] = get_args(Method)
_LEAST_BUFFER = 80
_LEAST_HASH, _MOST_HASH = 4, 64  # hexadecimal digits
_MEANT: Mapping[str, str] = {
    "api-key": "keys, tokens, passwords and other secrets",
    "name": "names of people",
    "address": "postal addresses of people",
    "date-of-birth": "dates on which people were born",
    "mac": "addresses of network cards",
}


@dataclass(frozen=True, slots=True)
class PIIType:
    """A type of personal data of one's own.

    Attributes:
        name: what it is called, in placeholders and reports.
        pattern: a regular expression in the syntax of the ``regex`` library; None: a judge must find it.
        validator: tells from the matched text whether it counts: a function, or one of ``card``, ``iban``,
            ``ip-address``, ``luhn``, ``password``, ``ssn``, ``token``.
        description: what it is, for the judge.
        flags: letters of ``imsx`` for the pattern.
        timeout: how many seconds the pattern may take on one text; longer is a failure.
    """

    name: str
    pattern: Pattern | None = None
    validator: str | Callable[[str], bool] | None = None
    description: str = ""
    flags: str = ""
    timeout: float = 0.5


class Wanted(NamedTuple):
    """What is looked for.

    Attributes:
        given: the types as they were given.
        types: the names of all types.
        detector: finds those that have a pattern.
        judged: the names of those for which a judge is asked.
        meant: what the types are, for the judge.
    """

    given: tuple[str | PIIType, ...]
    types: tuple[str, ...]
    detector: PersonalData
    judged: tuple[str, ...]
    meant: Mapping[str, str]


def wanted(guard: str, given: Iterable[str | PIIType] | None, *, model: bool, embedded: bool) -> Wanted:
    """Return what is looked for.

    Args:
        guard: the guard's name, for errors.
        given: the types; None for all that can be found.
        model: whether there is somebody to ask.
        embedded: whether patterns are used.

    Raises:
        OptionError: a type that is no name and no `PIIType`, none at all, or one that needs a model where none is.
    """
    entries = _entries(guard, (*EMBEDDED, *(CONTEXTUAL if model else ())) if given is None else given)
    rules = [_rule(guard, index, entry) for index, entry in enumerate(entries) if isinstance(entry, PIIType)]
    names = tuple(entry if isinstance(entry, str) else entry.name for entry in entries)
    detector = PersonalData(names, [rule for rule in rules if rule is not None])
    judged = detector.contextual if embedded else names
    if judged and not model:
        if not embedded:
            needs = "True, or a model= must be given to judge in its place"
            raise OptionError(guard, "embedded", embedded, needs)
        raise OptionError(
            guard,
            "detection_types",
            judged[0],
            f"one of {', '.join(EMBEDDED)}, or a PIIType with a pattern; anything else takes a model= to find it",
        )
    asked = (*judged, *(name for name in _DOUBTFUL if name in names and name not in judged)) if model else ()
    own = {entry.name: entry.description for entry in entries if isinstance(entry, PIIType) and entry.description}
    return Wanted(tuple(entries), names, detector, asked, {**_MEANT, **own})


def _entries(guard: str, given: object) -> list[str | PIIType]:
    listed = (given,) if isinstance(given, (str, PIIType)) else given
    entries: list[object] = [*cast("Iterable[object]", listed)] if isinstance(listed, Iterable) else []
    names: list[object] = [entry.name if isinstance(entry, PIIType) else entry for entry in entries]
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        allowed = "names of types, or PIITypes, at least one and each once"
        raise OptionError(guard, "detection_types", names, allowed)
    taken = [entry.name for entry in entries if isinstance(entry, PIIType) and entry.name in EMBEDDED]
    if taken:
        raise OptionError(
            guard, "detection_types", taken[0], "another name for a type of one's own: this one is built in"
        )
    return cast("list[str | PIIType]", entries)


def _rule(guard: str, index: int, entry: PIIType) -> UserRule | None:
    if entry.pattern is None:
        return None
    from penstock.detection.patterns.rules import RegexRule, checked  # loaded where there is a pattern to compile

    rule = RegexRule(entry.name, entry.pattern, f"g{entry.flags}", validator=entry.validator)
    return checked(guard, index, rule, entry.timeout)


def question(looked: Wanted) -> str:
    """Return what a judge is told."""
    named = "\n".join(
        f"- {name}: {looked.meant[name]}" if name in looked.meant else f"- {name}" for name in looked.types
    )
    return (
        "Find personal data in the content: what identifies a living person, or is theirs alone.\n"
        f"The types, and no others:\n{named}\n"
        "Report each value once, letter by letter as it stands in the content, with how sure you are, from 0 to 1.\n"
        "Where you are sure that a type is there but cannot quote it, report null for the value.\n"
        "A word in square brackets, such as [EMAIL], stands for what is hidden already: never report it.\n"
        "Report nothing about companies, places, or people of public life whom the content only mentions."
    )


def said(verdict: PIIVerdict, types: Iterable[str]) -> Iterable[Said]:
    """Yield what a judge says, by the names of the types; what it was not asked for goes under `UNLISTED`."""
    known = {_plain(name): name for name in types}
    for entry in verdict.findings:
        yield Said(known.get(_plain(entry.type), UNLISTED), entry.value, entry.score)


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")


def methods(guard: str, given: object, types: Iterable[str]) -> Mapping[str, str]:
    """Return the method for each type that has one of its own, and the others' under ``*``.

    Raises:
        OptionError: it is no method, nor a mapping of types (``*`` for the others) to methods.
    """
    if not isinstance(given, Mapping):
        return {"*": one_of(guard, "redaction_method", cast("str", given), _METHODS)}
    table = cast("Mapping[str, str]", given)
    for name in table:
        one_of(guard, "redaction_method", name, ("*", *types))
    return {
        "*": "mask",
        **{name: one_of(guard, f"redaction_method[{name!r}]", how, _METHODS) for name, how in table.items()},
    }


def hash_length(guard: str, given: object) -> int:
    """Return the option if it is a number of hexadecimal digits that a hash has.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or not _LEAST_HASH <= given <= _MOST_HASH:
        raise OptionError(guard, "hash_length", given, f"a number of hexadecimal digits, {_LEAST_HASH} to {_MOST_HASH}")
    return given


def hash_key(guard: str, given: object) -> bytes | None:
    """Return the option as bytes; None if it is None.

    Raises:
        OptionError: it is neither bytes nor a text, or an empty one; the key is not quoted.
    """
    if given is None:
        return None
    if not isinstance(given, (bytes, str)) or not given:
        raise OptionError(guard, "hash_key", type(given).__name__, "bytes or a text, not empty; or None")
    return given if isinstance(given, bytes) else given.encode()


def buffer_size(guard: str, given: object) -> int:
    """Return the option if it is a number of characters that a sentence can have.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or given < _LEAST_BUFFER:
        raise OptionError(guard, "buffer_size", given, f"a number of characters, {_LEAST_BUFFER} or more")
    return given
