"""`RegexFilterProcessor`: blocks, redacts or logs matches of regular expressions in any text. It needs no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from penstock.detection.patterns.matching import Finder, FinderState, Match, UnitedMatches
from penstock.detection.patterns.rules import RegexRule, checked, seconds
from penstock.detection.places.owner import owner_words
from penstock.detection.unicode.disguises import read
from penstock.engine.processor.option_checks import check_callback, check_count
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.components import Action, Search
from penstock.engine.text_guards.reading import is_random
from penstock.engine.text_guards.reporting import MOST_LISTED, GuardReporter, by_place, cannot_edit, field_of
from penstock.engine.text_guards.scope import choose_edits, choose_texts
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, FrozenDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.detection.patterns.built_in import BuiltInRule
    from penstock.detection.patterns.rules import UserRule
    from penstock.detection.places.owner import Allowed, Fields, OwnerWords
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.scope import Arguments, Numbers, Phase, SystemMessages, Unscanned
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.frozen import Value

Strategy = Literal["block", "redact", "warn"]

PRESETS: tuple[str, ...] = ("pii", "secrets", "urls")
"""The names of the built-in sets of rules."""

HIDDEN = "[hidden]"
"""What stands for the matched text in a tripwire's metadata."""

_USUAL_IN_IDS = frozenset({"url", "uuid", "secret-value"})
_STATE, _KEPT = "state", "kept"
_HIDDEN_WORD = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """One match, or several that overlap and were replaced as one.

    Attributes:
        rule: the name of the rule; of several rules, the one whose replacement was used.
        index: where the match begins, in code points from the beginning of the text.
        length: its length in code points.
        replacement: what replaced it; None if nothing was replaced.
        overlapping_rules: the names of all rules that matched there, if there was more than one.
        value: the matched text; None unless ``include_redacted_values`` is set.
    """

    rule: str
    index: int
    length: int
    replacement: str | None = None
    overlapping_rules: tuple[str, ...] = ()
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """What `RegexFilterProcessor` found in one text; ``on_violation`` is called with it.

    Attributes:
        processor_id: the id of the processor.
        message: a sentence for people that names the rules.
        strategy: the reaction to it: ``block``, ``redact`` or ``warn``.
        stage: the stage that the processor ran in, such as ``process_input``.
        message_id: the id of the message; empty for a tool's arguments or result.
        part: the index of the part in the message, from 0.
        field: which field the text is: ``text``, ``arguments``, ``result``, ``title`` …
        matches: the matches, in order.
    """

    processor_id: str
    message: str
    strategy: str
    stage: str
    message_id: str
    part: int
    field: str
    matches: tuple[PatternMatch, ...]


class PatternSearch(Search):
    """Finds what rules match.

    Attributes:
        presets: the names of the built-in sets of rules.
        banned_words: words and phrases to find.
        own: the user's own rules.
        owner: the options ``fields`` and ``allow``.
        named: rules that match nothing, for the types of fields that have no other.
        finder: finds all of them.
    """

    def __init__(
        self,
        presets: Sequence[str],
        banned_words: Sequence[str],
        own: Sequence[UserRule],
        owner: OwnerWords,
        named: Sequence[UserRule] = (),
    ) -> None:
        self.presets, self.banned_words, self.own, self.owner, self.named = presets, banned_words, own, owner, named
        self.least_number, self.reads_paths = owner.least_number, bool(owner.fields)
        self._asks_user = any(rule.asks_user for rule in own)
        self.finder = self._made_finder()

    def _made_finder(self) -> Finder:
        built_in = [rule for chosen in self.presets for rule in preset(chosen)]
        if self.banned_words:
            from penstock.detection.patterns.banned_words import banned_words_rule  # loaded where there are some

            built_in.append(banned_words_rule(self.banned_words, _HIDDEN_WORD))
        return Finder([*built_in, *self.own, *self.named])

    def evidence(self, ctx: AnyContext) -> bytes | None:
        """Return nothing, unless a function of the user's has a say: it may go by anything."""
        del ctx
        return None if self._asks_user else b""

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state: all but the finder, whose built-in rules are loaded again."""
        return {name: value for name, value in self.__dict__.items() if name != "finder"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the pickled state."""
        self.__dict__.update(state)
        self.finder = self._made_finder()

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return the position from which text must be held back, if a glance shows that no rule matches; else None."""
        return None if notes or self.owner.fields else self.finder.quiet(text, start, final=final)

    def scan(self, window: TextWindow, ctx: AnyContext) -> tuple[Sequence[Match], int]:
        """Return the matches of the rules, and from where on more text could change them."""
        found, hold = self._scanned(window, ctx)
        if not self.owner:
            return found, hold
        base = window.base
        earlier: Sequence[Match] = window.notes.pop(_KEPT, ())
        known = dict.fromkeys([*(moved_match(one, -base) for one in earlier), *found])
        rules = self.finder.rules
        names = [rule.name for rule in rules]
        counted, until = self.owner.applied(
            window,
            [one for one in known if one.start >= window.start],
            hold,
            lambda match: rules[match.rule].name,
            lambda start, end, type: Match(start, end, names.index(type)),
            ctx,
        )
        if until < hold:  # matches behind it are not found again
            window.notes[_KEPT] = tuple(moved_match(one, base) for one in known if until < one.end <= hold)
        return counted, until

    def _scanned(self, window: TextWindow, ctx: AnyContext) -> tuple[Sequence[Match], int]:
        finder, text, start = self.finder, window.text, window.start
        try:
            if window.final and not window.base and not start:
                return finder.find(text, window.key), len(text)
            state: FinderState = window.notes.pop(_STATE, None) or finder.begun(text, start)
            if window.key and not start and not window.final:
                found, hold = finder.scan_value(text, window.key, state)
                if hold:
                    window.notes[_STATE] = state
                return found, hold
            if window.final:
                return finder.finish(text, start, state), len(text)
            found, hold = finder.scan(text, start, state)
        except TimeoutError as error:
            ctx.note(timeout=str(error))
            raise
        if not finder.is_begun(text, hold, hold, state):  # else `quiet` can go on from there
            window.notes[_STATE] = state
        return found, hold


class PatternAction(Action):
    """Redacts, blocks or reports matches.

    Attributes:
        findings: the fact with the number of matches of the run by rule.
    """

    def __init__(
        self, guard_id: str, search: PatternSearch, findings: Key[Mapping[str, int]], reporter: GuardReporter
    ) -> None:
        self.guard_id = guard_id
        self.findings = findings
        self._search = search
        self._reporter = reporter

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Report the matches; then return the edits that redact them, or stop the run."""
        redacts = self._reporter.strategy == "redact"
        found = [(hit.window, self._counting(hit)) for hit in hits]
        united = (
            [(window, self._search.finder.unite(window.text, matches)) for window, matches in found] if redacts else []
        )
        shown: Sequence[tuple[TextWindow, Sequence[Match | UnitedMatches]]] = united if redacts else found
        counts = Counter(self._name(item) for _, items in shown for item in items)
        self._reporter.count(ctx, self.findings, counts, note="matches")
        for window, items in shown:
            self._report(ctx, window, items)
        fixed = [(window, matches) for window, matches in found if window.stuck and matches] if redacts else []
        if self._reporter.strategy == "block":
            self._block(ctx, found, counts)
        if fixed:
            self._block(ctx, fixed, counts, cannot_edit(window for window, _ in fixed))
        if self._reporter.strategy == "warn":
            self._reporter.warn(ctx, counts, "rules matched")
            return [()] * len(hits)
        return [[Edit(item.start, item.end, item.replacement, "redact") for item in items] for _, items in united]

    def _counting(self, hit: Hit) -> list[Match]:
        """Return the matches that count: an id, an address or a signature is no key and no link in itself."""
        found = cast("list[Match]", hit.found)
        if not hit.window.fixed or not is_random(hit.window.text, hit.window.key):
            return found
        built_in = len(self._search.finder.rules) - len(self._search.own) - len(self._search.named)
        return [item for item in found if item.rule >= built_in or self._name(item) not in _USUAL_IN_IDS]

    def _block(
        self,
        ctx: AnyContext,
        found: Sequence[tuple[TextWindow, Sequence[Match]]],
        counts: Mapping[str, int],
        why: str = "",
    ) -> None:
        names = [self._name(match) for _, matches in found for match in matches]
        listed = [(window, match) for window, matches in found for match in matches][:MOST_LISTED]
        matches = [self._listed_match(window, match) for window, match in listed]
        self._reporter.block(ctx, names, {"matches": matches, "counts": dict(counts)}, why)

    def _listed_match(self, window: TextWindow, match: Match) -> dict[str, Value]:
        place, index = window.locate(match.start)
        return {
            "rule": self._name(match),
            "index": index,
            "length": match.end - match.start,
            "match": HIDDEN,
            "message_id": place.message_id,
            "part": place.part,
            "field": place.path[0] if place.path else "",
        }

    def _report(self, ctx: AnyContext, window: TextWindow, found: Sequence[Match | UnitedMatches]) -> None:
        """Call ``on_violation`` once for each place in which something was found."""
        if not self._reporter.is_heard():
            return
        for place, items in by_place(window, found).items():
            matches = tuple(self._as_match(window, item) for item in items)
            names = ", ".join(dict.fromkeys(match.rule for match in matches))
            violation = Violation(
                self.guard_id,
                f"rules matched: {names}",
                self._reporter.strategy,
                ctx.stage,
                place.message_id,
                place.part,
                field_of(place),
                matches,
            )
            self._reporter.call(ctx, "on_violation", violation)

    def _as_match(self, window: TextWindow, found: Match | UnitedMatches) -> PatternMatch:
        united = found if isinstance(found, UnitedMatches) else None
        names = tuple(dict.fromkeys(self._search.finder.rules[index].name for index in united.rules)) if united else ()
        return PatternMatch(
            self._name(found),
            window.locate(found.start)[1],
            found.end - found.start,
            united.replacement if united else None,
            names if len(names) > 1 else (),
            window.text[found.start : found.end] if self._reporter.shows_text else None,
        )

    def _name(self, found: Match | UnitedMatches) -> str:
        return self._search.finder.rules[found.rule].name


_KINDS = {"pii": "personal", "secrets": "secrets", "urls": "links"}
"""By preset, the kind of content that it finds; see `Processor.finds`."""


class RegexFilterProcessor(TextGuard):
    """Blocks, redacts or reports what rules match, in texts of every kind and in tools' arguments and results.

    It is a guard, so its failure blocks: a rule that takes too long, or a validator that raises, lets nothing through.
    With ``strategy="warn"`` it is an observer, and its failure changes nothing.

    Attributes:
        findings: the fact with the number of matches of the run by rule: ``{"email": 2}``.
    """

    id = "regex-filter"
    judges_alone = True

    def __init__(
        self,
        rules: Iterable[RegexRule | Mapping[str, Any]] = (),
        *,
        presets: Iterable[str] = (),
        banned_words: Iterable[str] = (),
        strategy: Strategy = "block",
        phase: Phase = "all",
        include_redacted_values: bool = False,
        stream_carryover_size: int | None = None,
        parts: Iterable[str] | None = None,
        history: bool = False,
        system: SystemMessages = "client",
        unscanned: Unscanned | None = None,
        numbers: Numbers = "null",
        arguments: Arguments = "block",
        fields: Fields = EMPTY,
        allow: Iterable[Allowed] = (),
        timeout: float = 0.5,
        on_violation: Callable[[Violation], object] | None = None,
        id: str | None = None,
    ) -> None:
        """Check the options and compile the rules.

        Args:
            rules: your own rules, as `RegexRule` or as mappings with its fields; they come after those of ``presets``.
            presets: built-in rules: any of ``pii``, ``secrets`` and ``urls``; none by default.
            banned_words: words and phrases, found whole, in any letter case and behind disguises; none by default.
            strategy: ``block`` (the default) stops the run, ``redact`` puts the replacement of each rule in place of
                its matches, ``warn`` only reports.
            phase: where it looks: ``input`` (text that goes to the model: the caller's messages and tools' results),
                ``output`` (text that comes from the model: answers and tool calls) or ``all`` (the default).
            include_redacted_values: whether ``on_violation`` gets the matched texts; False by default. They are given
                to nobody else.
            stream_carryover_size: how many characters of a stream are held back at least, from 1 to ``max_hold``
                (4,096 unless a subclass declares more); None (the default) for no more than the rules need. A match
                that reaches into them is held back whole, so leave room for the longest one.
            parts: the kinds of message parts that are read; None (the default) for all. What belongs to a message
                itself, such as its name, is read in any case.
            history: whether the whole conversation is read again before each model call; False by default.
            system: which system messages are read, too: those that a ``client`` sent (the default), ``all`` or
                ``none``.
            unscanned: what happens to bodies that no rule can read, such as pictures: ``block``, ``flag`` (a note in
                the step's record) or ``allow``. None (the default): ``block`` in parts of the kinds that are read,
                ``flag`` with ``strategy="warn"``.
            numbers: what replaces a number that matches, in JSON values and in JSON text: ``null`` (the default), so
                that a list or a column of numbers stays one, or ``text``: a string with the redacted digits.
            arguments: what happens if ``redact`` would change an argument of a tool call that is a command, code, a
                path or an address. ``block`` (the default) stops the run, ``redact`` changes it like others.
            fields: names of rules, or types of your own, by the paths of values in JSON values and JSON text: the whole
                value is a match of the rule; with None, nothing in it is one. None by default; see `PIIDetector`.
            allow: values, patterns, functions, domains and kinds that are no matches; none by default.
            timeout: how many seconds one of your own rules may take on one text, more than 0; 0.5 by default.
            on_violation: a plain function that is called with a `Violation` for each text with a match; None by
                default.
            id: the name of the step in the graph.

        Raises:
            OptionError: an option is not allowed, there is no rule, or a rule does not compile.
        """
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.presets = _presets(name, presets)
        self.strategy: str = one_of(name, "strategy", strategy, get_args(Strategy))
        self.timeout = seconds(name, "timeout", timeout)
        self.rules, self.banned_words = tuple(rules), _banned(name, banned_words)
        own = tuple([checked(name, index, rule, self.timeout) for index, rule in enumerate(self.rules)])
        search = _search(name, self.presets, self.banned_words, own, owner_words(name, fields, allow))
        self.fields, self.allow = FrozenDict(search.owner.fields), search.owner.allow
        if not search.finder.rules:
            raise OptionError(
                name, "rules", self.rules, f"one rule or more, or presets= of {', '.join(PRESETS)}, or banned_words="
            )
        usual: Unscanned = "flag" if strategy == "warn" else "block"
        choose_texts(self, phase, parts, history=history, system=system, unscanned=unscanned, usual=usual)
        choose_edits(self, numbers, arguments)
        self.include_redacted_values = flag(name, "include_redacted_values", include_redacted_values)
        fits = f"an int from 1 to {self.max_hold}, or None; a subclass that declares max_hold changes the limit"
        self.stream_carryover_size = (
            None
            if stream_carryover_size is None
            else check_count(name, "stream_carryover_size", stream_carryover_size, fits, 1, self.max_hold)
        )
        self.min_hold, self.lookback = self.stream_carryover_size or 0, search.finder.lookback
        self.on_violation = check_callback(name, "on_violation", on_violation)
        reporter = GuardReporter(strategy, {"on_violation": on_violation}, shows_text=include_redacted_values)
        self.edits = "spans" if strategy == "redact" else "nothing"
        if strategy == "warn":
            self.role, self.on_error = "observer", "allow"
        banned = [f"{len(self.banned_words)} banned words"] * bool(self.banned_words)
        chosen = [*self.presets, *banned, *(rule.name for rule in own)]
        self.findings = Key[Mapping[str, int]](f"{self.id}.matches[{', '.join(chosen)}: {strategy}]")
        self.provides, self.finds = (self.findings,), _kinds(self.presets, own=bool(own or self.banned_words))
        self.search, self.action = search, PatternAction(self.id, search, self.findings, reporter)


def _search(
    guard: str, presets: Sequence[str], banned_words: Sequence[str], own: Sequence[UserRule], owner: OwnerWords
) -> PatternSearch:
    """Return the search, with a rule that matches nothing for each type of a field that has no rule."""
    search = PatternSearch(presets, banned_words, own, owner)
    known = {rule.name for rule in search.finder.rules}
    lacking = [type for type in owner.types if type not in known]
    if not lacking or not known:
        return search
    rules = [RegexRule(type, "(?!)", replacement=f"[{type.upper()}]") for type in lacking]
    named = [checked(guard, index, rule, 1.0) for index, rule in enumerate(rules)]
    return PatternSearch(presets, banned_words, own, owner, named)


def _kinds(presets: Iterable[str], *, own: bool) -> tuple[str, ...]:
    return (*(_KINDS[preset] for preset in presets), *["patterns"] * own)


def moved_match(match: Match, by: int) -> Match:
    """Return a match with a number added to its positions."""
    return match._replace(start=match.start + by, end=match.end + by)


@cache
def preset(name: str) -> tuple[BuiltInRule, ...]:
    """Return the rules of a preset; see `PRESETS`. Their tables are loaded when they are first asked for."""
    if name == "pii":
        from penstock.detection.personal_data.pii_rules import PII

        return PII
    if name == "secrets":
        from penstock.detection.secrets import SECRETS

        return SECRETS
    from penstock.detection.personal_data.links import URLS

    return URLS


def _presets(processor: str, given: Iterable[str]) -> tuple[str, ...]:
    chosen = (given,) if isinstance(given, str) else tuple(given)
    for name in chosen:
        one_of(processor, "presets", name, PRESETS)
    return tuple(dict.fromkeys(chosen))


def _banned(processor: str, given: Iterable[str]) -> tuple[str, ...]:
    words = cast("tuple[object, ...]", (given,) if isinstance(given, str) else tuple(given))
    blank = [word for word in words if not isinstance(word, str) or not read(word).text.strip()]
    if blank:
        raise OptionError(processor, "banned_words", blank[0], "words or phrases, none of them empty")
    return tuple(cast("tuple[str, ...]", words))
