"""`PIISearch`: finds personal data, with patterns and what a judge names; and `PIIType`, a type of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.detection.deferred import deferred
from penstock.detection.personal_data.detector import CONTEXTUAL, DEFAULT, EMBEDDED, PersonalData
from penstock.detection.windows import Windows
from penstock.engine.text_guards.reading import is_random
from penstock.engine.values.errors import OptionError
from penstock.processors.guards.detector_options import check_shared, known_names
from penstock.processors.guards.judging import UNLISTED, listing
from penstock.processors.guards.span_findings import JudgedValue, hide_spans
from penstock.processors.guards.span_search import SpanSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.detection.patterns.rules import Pattern, UserRule
    from penstock.detection.places.owner import OwnerWords
    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Judged, SpanDetector
    from penstock.processors.guards.guard_options import GuardSetup
    from penstock.processors.guards.span_search import FindSpans, Spans
    from penstock.processors.guards.verdicts import PIIVerdict

_DOUBTFUL = ("date-of-birth",)  # found by words nearby alone, so a judge is asked, too
_SURE = 0.6  # how sure a model must be if no threshold is set
_MEANT: Mapping[str, str] = {
    "api-key": "keys, tokens, passwords and other secrets",
    "name": "names of people",
    "address": "postal addresses of people",
    "date-of-birth": "dates on which people were born",
    "mac": "addresses of network cards",
    "national-id": "numbers that a state gives to a person or prints in a document: identity, tax, insurance, passport",
    "vehicle-id": "identification numbers of vehicles",
    "device-id": "serial numbers of phones",
}
_CREDENTIALS = deferred(r"://[^/?#]*:[^/?#]*@")


@dataclass(frozen=True, slots=True)
class PIIType:
    """A type of personal data of your own.

    Attributes:
        name: the name of the type, in placeholders and reports.
        pattern: a regular expression in the syntax of the ``regex`` library; None (the default) if a judge must find
            the type.
        validator: decides from the matched text whether it counts: a function, or one of ``card``, ``iban``,
            ``ip-address``, ``luhn``, ``password``, ``ssn``, ``token``; None (the default) for every match.
        description: what the type is, for the judge; empty by default.
        flags: letters of ``imsx`` for the pattern; none by default.
        timeout: how many seconds the pattern may take on one text, more than 0; 0.5 by default. Longer is a failure.
    """

    name: str
    pattern: Pattern | None = None
    validator: str | Callable[[str], bool] | None = None
    description: str = ""
    flags: str = ""
    timeout: float = 0.5


class LookedFor(NamedTuple):
    """The types that a `PIIDetector` looks for.

    Attributes:
        given: the types as they were given.
        types: the names of all types.
        detector: finds the types that have a pattern.
        judged: the names of the types that a judge is asked about.
        meant: the descriptions of types, for the judge.
    """

    given: tuple[str | PIIType, ...]
    types: tuple[str, ...]
    detector: PersonalData
    judged: tuple[str, ...]
    meant: Mapping[str, str]


def looked_for(
    guard: str,
    given: Iterable[str | PIIType] | None,
    detector: SpanDetector | None = None,
    *,
    domains: Iterable[str],
    countries: Iterable[str],
    model: bool,
    embedded: bool,
    combine: str = "max",
) -> LookedFor:
    """Return the types that a guard looks for.

    Args:
        guard: the name of the guard, for errors.
        given: the types; None for all that can be found, except links and UUIDs.
        detector: the user's own detector, if there is one.
        domains: domains whose links and addresses are no findings.
        countries: codes of countries whose national numbers count without a label, too.
        model: whether there is a model to ask.
        embedded: whether patterns are used, unless the detector replaces them.
        combine: how both become one.

    Raises:
        OptionError: an entry is neither a name nor a `PIIType`, there is none, or a type needs a model or a detector
            and there is none.
    """
    theirs = () if detector is None else tuple(detector.types)
    embedded = embedded and combine != "replace"
    patterns = DEFAULT if embedded or model or not theirs else ()
    usual = known_names(patterns, theirs, "max" if combine == "replace" and model else combine)
    if theirs and combine == "confirm":
        check_shared(guard, usual, patterns, theirs)
    usual = tuple(dict.fromkeys((*usual, *(CONTEXTUAL if model else ()))))
    entries = _entries(guard, usual if given is None else given)
    rules = [_rule(guard, index, entry) for index, entry in enumerate(entries) if isinstance(entry, PIIType)]
    names = tuple(entry if isinstance(entry, str) else entry.name for entry in entries)
    patterned = PersonalData(names, [rule for rule in rules if rule is not None], domains, countries)
    judged = patterned.contextual if embedded else names
    _check_found(guard, names, judged, theirs, model=model, embedded=embedded, combine=combine)
    asked = (*judged, *(name for name in _DOUBTFUL if name in names and name not in judged)) if model else ()
    own = {entry.name: entry.description for entry in entries if isinstance(entry, PIIType) and entry.description}
    return LookedFor(tuple(entries), names, patterned, asked, {**_MEANT, **own})


def _check_found(
    guard: str,
    names: Sequence[str],
    judged: Sequence[str],
    theirs: Sequence[str],
    *,
    model: bool,
    embedded: bool,
    combine: str,
) -> None:
    """Refuse types that nobody finds, and a detector that finds none of the types; ``judged`` have no pattern."""
    if theirs and not {*theirs} & {*names}:
        allowed = f"one of at least one type in detection_types; it finds {', '.join(map(repr, theirs))}"
        raise OptionError(guard, "detector", f"a detector of {', '.join(theirs)}", allowed)
    if model:
        return
    if not embedded and not theirs:
        needs = "True, or a model= must be given to judge in its place"
        raise OptionError(guard, "embedded", embedded, needs)
    lost = [name for name in judged if name not in theirs]
    if combine == "confirm":
        lost = [name for name in names if name in judged or name not in theirs]
    if not lost:
        return
    if combine == "confirm" or not embedded:
        found = [name for name in theirs if name not in judged or not embedded]
        allowed = f"one of {', '.join(found)}, which the detector finds" + " and the guard" * embedded
        raise OptionError(guard, "detection_types", lost[0], f"{allowed}; or choose another combine=")
    raise OptionError(
        guard,
        "detection_types",
        lost[0],
        f"one of {', '.join(EMBEDDED)}, or a PIIType with a pattern; anything else takes a model= or a detector= to "
        "find it",
    )


def check_countries(guard: str, given: object) -> tuple[str, ...]:
    """Return codes of countries, in small letters.

    Raises:
        OptionError: one of them is no country whose national numbers have check digits.
    """
    listed = (given,) if isinstance(given, str) else given
    codes: list[object] = [*cast("Iterable[object]", listed)] if isinstance(listed, Iterable) else [given]
    if not codes:
        return ()
    from penstock.detection.personal_data.national_numbers import known_countries  # loaded where it is asked for

    known = known_countries()
    wrong = [code for code in codes if not isinstance(code, str) or code.lower() not in known]
    if wrong:
        raise OptionError(guard, "countries", wrong[0], f"codes of countries among {', '.join(known)}")
    return tuple(cast("str", code).lower() for code in codes)


def _entries(guard: str, given: object) -> list[str | PIIType]:
    listed = (given,) if isinstance(given, (str, PIIType)) else given
    entries: list[object] = [*cast("Iterable[object]", listed)] if isinstance(listed, Iterable) else []
    names: list[object] = [entry.name if isinstance(entry, PIIType) else entry for entry in entries]
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        allowed = "names of types, or PIITypes, at least one and each once"
        raise OptionError(guard, "detection_types", names, allowed)
    taken = [entry.name for entry in entries if isinstance(entry, PIIType) and entry.name in EMBEDDED]
    if taken:
        raise OptionError(guard, "detection_types", taken[0], "another name: this type is built in")
    return cast("list[str | PIIType]", entries)


def _rule(guard: str, index: int, entry: PIIType) -> UserRule | None:
    if entry.pattern is None:
        return None
    from penstock.detection.patterns.rules import RegexRule, checked  # loaded where there is a pattern to compile

    rule = RegexRule(entry.name, entry.pattern, f"g{entry.flags}", validator=entry.validator)
    return checked(guard, index, rule, entry.timeout)


def pii_question(looked: LookedFor) -> str:
    """Return the question that the model is asked."""
    return (
        "Find personal data in the content: what identifies a living person, or is theirs alone.\n"
        f"The types, and no others:\n{listing(looked.types, looked.meant)}\n"
        "Report each value once, letter by letter as it stands in the content, with how sure you are, from 0 to 1.\n"
        "Where you are sure that a type is there but cannot quote it, report null for the value.\n"
        "A word in square brackets, such as [EMAIL], stands for what is hidden already: never report it.\n"
        "Report nothing about companies, places, or people of public life whom the content only mentions."
    )


def values_said(verdict: PIIVerdict, types: Iterable[str]) -> Iterable[JudgedValue]:
    """Yield the values of a judge's verdict by the names of the types; types it was not asked for become `UNLISTED`."""
    known = {_plain(name): name for name in types}
    for entry in verdict.findings:
        yield JudgedValue(known.get(_plain(entry.type), UNLISTED), entry.value, entry.score)


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")


class PIISearch(SpanSearch["PIIVerdict"]):
    """Finds personal data.

    Attributes:
        looked: what is looked for.
    """

    def __init__(
        self,
        setup: GuardSetup[PIIVerdict, Sequence[Span]],
        looked: LookedFor,
        actions: Mapping[str, str],
        threshold: float | None,
        most: int,
        owner: OwnerWords,
        *,
        spoken: bool = False,
    ) -> None:
        super().__init__(
            setup,
            Windows(least=40, most=most, overlap=min(200, most)),
            threshold=_SURE if threshold is None else threshold,
            detector_threshold=threshold or 0.0,
            lookback=looked.detector.lookback,
        )
        self.looked = looked
        self.owner, self.least_number, self.reads_paths = owner, owner.least_number, bool(owner.fields)
        self._detectors = _parted(looked, actions)
        self._spoken = spoken
        self._asks_user = any(isinstance(entry, PIIType) and callable(entry.validator) for entry in looked.given)

    def evidence(self, ctx: AnyContext) -> bytes | None:
        """Return nothing, unless somebody is asked or told about each text, or a function of the user's has a say."""
        return None if self._asks_user else super().evidence(ctx)

    def searches(self) -> Sequence[tuple[FindSpans, bool]]:
        """Return the searches; types with different strategies are searched for apart, so that none hides another."""
        plain = [(partial(_in_text, detector), False) for detector in self._detectors]
        spoken = [(partial(_in_speech, detector), True) for detector in self._detectors if self._spoken]
        return [*plain, *((partial(_encoded, detector), True) for detector in self._detectors), *spoken]

    def quiet_spans(self, text: str, start: int, *, final: bool) -> int | None:
        """Return what `quiet` returns, as far as patterns are concerned."""
        if self._spoken or not self.setup.embedded:
            return None
        return self.looked.detector.quiet(text, start, final=final)

    def is_begun(self, text: str, since: int, ends: Sequence[tuple[int, Mapping[str, Value]]]) -> bool:
        """Return whether the searches can begin anew at a position of the text, or behind it, once that is quiet."""
        if self._spoken:
            return False
        detectors = (*self._detectors, *self._detectors)
        return all(detector.is_begun(text, since, *end) for detector, end in zip(detectors, ends, strict=True))

    def wants(self, type: str) -> bool:
        """Return whether a type is looked for."""
        return type in self.looked.types

    def judge_view(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the model is shown it: what patterns find in it is hidden."""
        del ctx
        return hide_spans(text, self.looked.detector.find(text)) if self.setup.embedded else text

    def judged_values(self, judged: Judged[PIIVerdict]) -> Iterable[JudgedValue]:
        """Return the values that the model names."""
        return values_said(judged.verdict, self.looked.types)


def _in_text(detector: PersonalData, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext) -> Spans:
    try:
        return _for(detector, window).scan(window.text, start, notes, final=window.final, key=window.key)
    except TimeoutError as error:
        ctx.note(timeout=str(error))
        raise


def _encoded(detector: PersonalData, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext) -> Spans:
    del ctx
    return _for(detector, window).encoded.scan(window.text, start, notes, final=window.final)


def _in_speech(
    detector: PersonalData, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
) -> Spans:
    del notes, ctx
    return _for(detector, window).spoken.scan(window.text, start, final=window.final)


def _for(detector: PersonalData, window: TextWindow) -> PersonalData:
    """Return what searches a window: an id, an address or a signature is no key, no UUID and no link in itself."""
    if not window.fixed or not is_random(window.text, window.key) or _CREDENTIALS.search(window.text):
        return detector
    return detector.in_ids


def _parted(looked: LookedFor, actions: Mapping[str, str]) -> tuple[PersonalData, ...]:
    """Return one search for the types of each strategy."""
    by_action: dict[str, list[str]] = {}
    for name in looked.types:
        by_action.setdefault(actions.get(name, actions.get("*", "")), []).append(name)
    if len(by_action) == 1:
        return (looked.detector,)
    return tuple(looked.detector.only(names) for names in by_action.values())
