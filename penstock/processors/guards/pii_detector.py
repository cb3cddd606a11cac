"""`PIIDetector`: finds personal data, and redacts or removes it, logs it, or stops the run.

`PIIType` defines a type of your own; `mask`, `keyed_hash` and `placeholder` make the replacements of values.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, Unpack, cast, get_args

from penstock.detection.personal_data.detector import CONTEXTUAL, DEFAULT, EMBEDDED, PersonalData
from penstock.detection.windows import Windows
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.reading import is_random
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.processors.guards.detector_options import check_shared, known_names, use_span_detector
from penstock.processors.guards.judged_guard import UNLISTED, check_score
from penstock.processors.guards.restore import VAULT, Numbering, Vault
from penstock.processors.guards.span_guard import JudgedValue, SpanGuard, hide_spans

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.detection.patterns.rules import Pattern, UserRule
    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Judge, Judged, JudgeSource, Model, SpanDetector
    from penstock.processors.guards.judged_guard import Combine, GuardOptions
    from penstock.processors.guards.pii_verdict import PIIVerdict
    from penstock.processors.guards.span_guard import FindSpans


Method = Literal["mask", "hash", "remove", "placeholder", "token"]

_DIGIT = re.compile(r"\d")
_HEX = re.compile(r"[0-9A-Fa-f]")
_SHOWN = 4  # characters at the end of a number that stay readable
_FLAT = 8  # characters of a mask that keeps no form, at most
_WALLET, _IBAN, _OTHER = 8, 6, 3  # values of no more characters are hidden whole
_LOCAL = 2  # a local part of no more characters is hidden whole


def mask(type: str, value: str, *, preserve_format: bool = True) -> str:
    """Return a value with most of its characters replaced by stars.

    Args:
        type: the type of the value; it decides which characters stay.
        value: the value.
        preserve_format: whether part of the value stays readable: the last digits of a number, the ends of a name. If
            not, the mask has at most 8 stars.
    """
    if not preserve_format:
        return _flat(value)
    return _MASKS.get(type, _other)(value)


def keyed_hash(value: str, key: bytes, length: int) -> str:
    """Return ``[HASH:…]`` with the first ``length`` hexadecimal digits of the value's HMAC-SHA-256."""
    return f"[HASH:{hmac.new(key, value.encode('utf-8', 'surrogatepass'), hashlib.sha256).hexdigest()[:length]}]"


def placeholder(type: str) -> str:
    """Return the name of the type in brackets: ``[EMAIL]``."""
    return f"[{type.upper()}]"


def _flat(value: str) -> str:
    return "*" * min(len(value), _FLAT)


def _email(value: str) -> str:
    if value.count("@") != 1:
        return _flat(value)
    local, domain = value.split("@")
    first, dot, rest = domain.partition(".")
    shown = f"{local[0]}{'*' * (len(local) - 2)}{local[-1]}" if len(local) > _LOCAL else "***"
    return f"{shown}@{'*' * len(first)}{dot}{rest}" if dot else f"{shown}@***"


def _number(star: str) -> Callable[[str], str]:
    """Return a mask that keeps the digits among the last characters, if there are others to hide."""

    def masked(value: str) -> str:
        shown = _SHOWN if len(_DIGIT.findall(value)) > _SHOWN else 0
        cut = len(value) - shown
        return _DIGIT.sub(star, value[:cut]) + value[cut:]

    return masked


def _ends(first: int, last: int, least: int) -> Callable[[str], str]:
    """Return a mask that keeps the ends of values longer than ``least`` characters."""

    def masked(value: str) -> str:
        if len(value) <= least:
            return "*" * len(value)
        return f"{value[:first]}{'*' * (len(value) - first - last)}{value[len(value) - last :]}"

    return masked


_other = _ends(1, 1, _OTHER)

_MASKS: Mapping[str, Callable[[str], str]] = {
    "email": _email,
    "phone": _number("X"),
    "credit-card": _number("*"),
    "ssn": _number("*"),
    "uuid": lambda value: _HEX.sub("*", value),
    "crypto-wallet": _ends(4, 4, _WALLET),
    "iban": _ends(2, 4, _IBAN),
}


_A_DOMAIN = re.compile(r"[^\W_](?:[\w-]*[^\W_])?(?:\.[^\W_](?:[\w-]*[^\W_])?)*")
_DOUBTFUL = ("date-of-birth",)  # found by words nearby alone, so a judge is asked, too
_BY_TYPE = ("redact", "block", "warn")  # the strategies that a type may have
_METHODS: tuple[str, ...] = get_args(Method)
_LEAST_BUFFER = 80
_SURE = 0.6  # how sure a model must be if no threshold is set
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


class PIISearch(NamedTuple):
    """What a `PIIDetector` looks for.

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


def pii_search(
    guard: str,
    given: Iterable[str | PIIType] | None,
    allow: Iterable[str],
    *,
    model: bool,
    embedded: bool,
    theirs: Sequence[str] = (),
    combine: str = "max",
) -> PIISearch:
    """Return what a guard looks for.

    Args:
        guard: the name of the guard, for errors.
        given: the types; None for all that can be found, except links and UUIDs.
        allow: domains whose links and addresses are no findings.
        model: whether there is a model to ask.
        embedded: whether patterns are used.
        theirs: the types that the user's own detector finds.
        combine: how both become one.

    Raises:
        OptionError: an entry is neither a name nor a `PIIType`, there is none, or a type needs a model or a detector
            and there is none.
    """
    patterns = DEFAULT if embedded or model or not theirs else ()
    usual = known_names(patterns, theirs, "max" if combine == "replace" and model else combine)
    if theirs and combine == "confirm":
        check_shared(guard, usual, patterns, theirs)
    usual = tuple(dict.fromkeys((*usual, *(CONTEXTUAL if model else ()))))
    entries = _entries(guard, usual if given is None else given)
    rules = [_rule(guard, index, entry) for index, entry in enumerate(entries) if isinstance(entry, PIIType)]
    names = tuple(entry if isinstance(entry, str) else entry.name for entry in entries)
    detector = PersonalData(names, [rule for rule in rules if rule is not None], allow)
    judged = detector.contextual if embedded else names
    _check_found(guard, names, judged, theirs, model=model, embedded=embedded, combine=combine)
    asked = (*judged, *(name for name in _DOUBTFUL if name in names and name not in judged)) if model else ()
    own = {entry.name: entry.description for entry in entries if isinstance(entry, PIIType) and entry.description}
    return PIISearch(tuple(entries), names, detector, asked, {**_MEANT, **own})


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


def check_domains(guard: str, given: object) -> tuple[str, ...]:
    """Return domains in small letters.

    Raises:
        OptionError: they are not domains, such as ``example.com``.
    """
    listed = (given,) if isinstance(given, str) else given
    names: list[object] = [*cast("Iterable[object]", listed)] if isinstance(listed, Iterable) else [given]
    wrong = [name for name in names if not isinstance(name, str) or _A_DOMAIN.fullmatch(name) is None]
    if wrong:
        raise OptionError(guard, "allow", wrong[0], "domains, without scheme and path: ['example.com']")
    return tuple(cast("str", name).lower() for name in names)


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


def pii_question(looked: PIISearch) -> str:
    """Return the question that the model is asked."""
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


def values_said(verdict: PIIVerdict, types: Iterable[str]) -> Iterable[JudgedValue]:
    """Yield the values of a judge's verdict by the names of the types; types it was not asked for become `UNLISTED`."""
    known = {_plain(name): name for name in types}
    for entry in verdict.findings:
        yield JudgedValue(known.get(_plain(entry.type), UNLISTED), entry.value, entry.score)


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-").replace(" ", "-")


def check_methods(guard: str, given: object, types: Iterable[str]) -> Mapping[str, str]:
    """Return the redaction method of each type that has its own, and under ``*`` that of the others.

    Raises:
        OptionError: it is neither a method nor a mapping of types (``*`` for the others) to methods.
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


def check_hash_length(guard: str, given: object) -> int:
    """Return the option if it is a number of hexadecimal digits from 4 to 64.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or not _LEAST_HASH <= given <= _MOST_HASH:
        raise OptionError(guard, "hash_length", given, f"a number of hexadecimal digits, {_LEAST_HASH} to {_MOST_HASH}")
    return given


def check_hash_key(guard: str, given: object) -> bytes | None:
    """Return the option as bytes; None if it is None.

    Raises:
        OptionError: it is neither bytes nor a text, or it is empty; the error does not quote it.
    """
    if given is None:
        return None
    if not isinstance(given, (bytes, str)) or not given:
        raise OptionError(guard, "hash_key", type(given).__name__, "bytes or a text, not empty; or None")
    return given if isinstance(given, bytes) else given.encode()


def check_buffer_size(guard: str, given: object) -> int:
    """Return the option if it is a number of characters that a sentence can have, 80 or more.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or given < _LEAST_BUFFER:
        raise OptionError(guard, "buffer_size", given, f"a number of characters, {_LEAST_BUFFER} or more")
    return given


Strategy = Literal["redact", "block", "warn", "filter"]

_CREDENTIALS = re.compile(r"://[^/?#]*:[^/?#]*@")
_NUMBERING = "penstock.numbering"  # where a step's state keeps who gives out tokens, while it acts
_PROCESS_KEY = os.urandom(32)
"""The key of hashes if none is given: equal values have equal hashes as long as the process lives."""


class PIIDetector(SpanGuard["PIIVerdict"]):
    """Finds personal data in all kinds of texts, and in tool arguments and results.

    Patterns and check digits always search first. A model, if there is one, finds data without a fixed form: names,
    addresses, types of your own. The guard then searches the text for the values that the model names.

    Attributes:
        found: the fact with the number of findings of the run by type: ``{"email": 2}``.

    Args:
        model: a `Model` or a `Judge` that is asked about names, addresses, dates of birth and types of your own without
            a pattern, and about nothing else; None (the default) for patterns alone.
        detection_types: names of types, or `PIIType` for types of your own; None (the default) for all that can be
            found, except links and UUIDs (``url``, ``uuid``).
        threshold: how sure the model and the ``detector`` must be, 0 to 1; None (the default): 0.6 for the model, and
            all that the detector returns. Matches of patterns always count.
        strategy: ``redact`` (the default) replaces findings, ``block`` stops the run, ``warn`` only reports, ``filter``
            removes the message, or in an answer the sentence. One for all types, or a mapping by type, with ``*`` for
            the others (``redact`` by default) and without ``filter``.
        redaction_method: how a finding is replaced. ``mask`` (the default): stars; ``hash``: a keyed hash; ``remove``:
            nothing; ``placeholder``: the name of the type; ``token``: a numbered token that `Restore` turns back
            (``[EMAIL_1]``). One for all types, or a mapping by type, with ``*`` for the others.
        preserve_format: whether a mask leaves part of a value readable: the last digits of a number, the ends of a
            name; True by default.
        hash_key: the key of hashes, bytes or text; None (the default) for a random key of the process.
        hash_length: the number of hexadecimal digits of a hash, 4 to 64; 16 by default.
        include_detections: whether the reason of a tripwire has the number of findings; False by default.
        buffer_size: the largest piece of a text that the model is shown at once, in characters, 80 or more; 600 by
            default.
        allow: domains whose links and e-mail addresses pass, with the domains below them; none by default.
        detector: a `SpanDetector` of your own, as for names and addresses; None (the default) for patterns alone. Its
            types are among those looked for by default.
        combine: how both become one. ``max`` (the default): what either finds counts; ``replace``: only yours is asked;
            ``confirm``: what patterns find counts if a finding of yours of that type overlaps it.
        options: see `GuardOptions`.

    Raises:
        OptionError: an option is not allowed, or a type needs a model and there is none.
    """

    id = "pii-detector"
    strategies = get_args(Strategy)

    def __init__(
        self,
        model: Model | str | Judge[PIIVerdict] | JudgeSource | None = None,
        *,
        detection_types: Iterable[str | PIIType] | None = None,
        threshold: float | None = None,
        strategy: Strategy | Mapping[str, Strategy] = "redact",
        redaction_method: Method | Mapping[str, Method] = "mask",
        preserve_format: bool = True,
        hash_key: bytes | str | None = None,
        hash_length: int = 16,
        include_detections: bool = False,
        buffer_size: int = 600,
        allow: Iterable[str] = (),
        detector: SpanDetector | None = None,
        combine: Combine = "max",
        **options: Unpack[GuardOptions],
    ) -> None:
        name = type(self).__name__
        embedded = flag(name, "embedded", options.get("embedded", True))
        self.allow = check_domains(name, allow)
        self.calls = use_span_detector(self, detector, combine, embedded=embedded)
        self.looked = pii_search(
            name,
            detection_types,
            self.allow,
            model=model is not None,
            embedded=embedded and combine != "replace",
            theirs=() if detector is None else tuple(detector.types),
            combine=combine,
        )
        self.detection_types = None if detection_types is None else self.looked.given
        self._given_threshold = None if threshold is None else check_score(name, "threshold", threshold)
        self.threshold = _SURE if self._given_threshold is None else self._given_threshold
        self.detector_threshold = self._given_threshold or 0.0
        self.redaction_method = redaction_method
        self._methods = check_methods(name, redaction_method, self.looked.types)
        self.preserve_format = flag(name, "preserve_format", preserve_format)
        self._hash_key = check_hash_key(name, hash_key) or _PROCESS_KEY
        self.hash_length = check_hash_length(name, hash_length)
        self.include_detections = flag(name, "include_detections", include_detections)
        self.buffer_size = check_buffer_size(name, buffer_size)
        self.windows = Windows(least=40, most=self.buffer_size, overlap=min(200, self.buffer_size))
        self._actions = check_strategies(name, strategy, self.looked.types)
        chosen = strategy if isinstance(strategy, str) else _overall(self._actions.values())
        self._detectors = _parted(self.looked, self._actions)
        self.set_up(model, chosen, _verdict(model), pii_question(self.looked), options, named=self.looked.types)
        if not self.looked.judged:
            self.judge, self.awaits, self.needs_loop = None, self.awaits_detector, self.detector_needs_loop
        self.lookback = max(self.lookback, self.looked.detector.lookback)
        if self.strategy == "redact" and "token" in self._methods.values():
            self.provides = (*self.provides, VAULT)

    def find_spans(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what patterns find in a window, and from where on more text could change that."""
        return self._scan(self.looked.detector, window, start, notes, ctx)

    def searches(self) -> Sequence[tuple[FindSpans, bool]]:
        """Return the searches; types with different strategies are searched for apart, so that none hides another."""
        plain = [(partial(self._scan, detector), False) for detector in self._detectors]
        return [*plain, *((partial(_encoded, detector), True) for detector in self._detectors)]

    def quiet_spans(self, text: str, start: int, *, final: bool) -> int | None:
        """Return what `quiet` returns, as far as patterns are concerned."""
        return self.looked.detector.quiet(text, start, final=final) if self.embedded else None

    def is_begun(self, text: str, since: int, ends: Sequence[tuple[int, Mapping[str, Value]]]) -> bool:
        """Return whether the searches can begin anew at a position of the text, or behind it, once that is quiet."""
        detectors = (*self._detectors, *self._detectors)
        return all(detector.is_begun(text, since, *end) for detector, end in zip(detectors, ends, strict=True))

    def action(self, type: str) -> str:
        """Return the strategy for findings of a type."""
        return self._actions.get(type, self._actions.get("*", self.strategy))

    def option(self, name: str) -> object:
        """Return an option as it was given."""
        if name == "threshold":
            return self._given_threshold
        return self._actions if name == "strategy" and self._actions else super().option(name)

    def wants(self, type: str) -> bool:
        """Return whether a type is looked for."""
        return type in self.looked.types

    def _scan(
        self, detector: PersonalData, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        try:
            return _for(detector, window).scan(window.text, start, notes, final=window.final, key=window.key)
        except TimeoutError as error:
            ctx.note(timeout=str(error))
            raise

    def find_encoded_spans(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what patterns find in encoded text."""
        return _encoded(self.looked.detector, window, start, notes, ctx)

    def judge_view(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the model is shown it: what patterns find in it is hidden."""
        del ctx
        return hide_spans(text, self.looked.detector.find(text)) if self.embedded else text

    def judged_values(self, judged: Judged[PIIVerdict]) -> Iterable[JudgedValue]:
        """Return the values that the model names."""
        return values_said(judged.verdict, self.looked.types)

    def replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what replaces a value of a type."""
        method = self._methods.get(type, self._methods["*"])
        if method == "mask":
            return mask(type, text, preserve_format=self.preserve_format)
        if method == "hash":
            return keyed_hash(text, self._hash_key, self.hash_length)
        if method == "placeholder":
            return placeholder(type)
        return self._numbering(ctx).token(type, text) if method == "token" else ""

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits of the strategy, or stop the run; the values of new tokens go into the run's vault."""
        if VAULT not in self.provides:
            return super().act(hits, ctx)
        ctx.state.pop(_NUMBERING, None)
        made = super().act(hits, ctx)
        numbering: Numbering | None = ctx.state.pop(_NUMBERING, None)
        if numbering is not None:
            ctx.put(VAULT, numbering.vault())
        return made

    def _numbering(self, ctx: AnyContext) -> Numbering:
        """Return the numbering of tokens for this call.

        It knows the tokens that stand in the conversation, which is read once a call. Answers of this run are left out:
        in a stream they are not complete yet, and its tokens must be the same.
        """
        numbering: Numbering | None = ctx.state.get(_NUMBERING)
        if numbering is None:
            own = {message.id for message in ctx.message_list.response}
            texts = (message.text for message in ctx.message_list.conversation if message.id not in own)
            numbering = ctx.state[_NUMBERING] = Numbering(ctx.get(VAULT) or Vault(), texts)
        return numbering

    def encoded_replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what replaces encoded text. A mask that keeps the form would leave letters that tell the value."""
        if self._methods.get(type, self._methods["*"]) == "mask":
            return mask(type, text, preserve_format=False)
        return self.replacement(text, type, ctx)

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run; with ``include_detections`` the reason says how much was found."""
        found = [*categories]
        counted = f"{len(found)} found; " if self.include_detections else ""
        super().block(ctx, found, metadata, f"{counted}{why}")


def _encoded(
    detector: PersonalData, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
) -> tuple[Sequence[Span], int]:
    del ctx
    return _for(detector, window).encoded.scan(window.text, start, notes, final=window.final)


def _for(detector: PersonalData, window: TextWindow) -> PersonalData:
    """Return what searches a window: an id, an address or a signature is no key, no UUID and no link in itself."""
    if not window.fixed or not is_random(window.text, window.key) or _CREDENTIALS.search(window.text):
        return detector
    return detector.in_ids


def check_strategies(guard: str, given: object, types: Iterable[str]) -> Mapping[str, str]:
    """Return the strategies by type, and under ``*`` that of the others; empty if there is one for all.

    Raises:
        OptionError: a name is no type, or a strategy is none of a type.
    """
    if not isinstance(given, Mapping):
        return EMPTY
    table = cast("Mapping[str, str]", given)
    for name, chosen in table.items():
        one_of(guard, "strategy", name, ("*", *types))
        one_of(guard, f"strategy[{name!r}]", chosen, _BY_TYPE)
    return {"*": _BY_TYPE[0], **table}


def _overall(actions: Iterable[str]) -> str:
    """Return the strategy that may do all that some may."""
    chosen = {*actions}
    return next(one for one in _BY_TYPE if one in chosen)


def _parted(looked: PIISearch, actions: Mapping[str, str]) -> tuple[PersonalData, ...]:
    """Return one search for the types of each strategy."""
    by_action: dict[str, list[str]] = {}
    for name in looked.types:
        by_action.setdefault(actions.get(name, actions.get("*", "")), []).append(name)
    if len(by_action) == 1:
        return (looked.detector,)
    return tuple(looked.detector.only(names) for names in by_action.values())


def _verdict(model: object) -> type[PIIVerdict]:
    """Return the type of a judge's verdicts; without a model, a type that is never used."""
    if model is None:
        return cast("type[PIIVerdict]", object)
    from penstock.processors.guards.pii_verdict import PIIVerdict

    return PIIVerdict
