"""`RegexFilterProcessor`: blocks, redacts or reports what patterns find, wherever text stands. It asks no model."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast, get_args

from penstock.detection.patterns.matching import Finder, FinderState, Match
from penstock.detection.patterns.rules import checked, seconds
from penstock.detection.presets import PRESETS, preset
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.guard import TextGuard
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.processors.text._counts import tell
from penstock.processors.text.reports import PatternMatch, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.detection.patterns.matching import UnitedMatches
    from penstock.detection.patterns.rules import RegexRule
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.text_guards.whole_texts import Phase
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.texts import TextPlace

log = logging.getLogger("penstock")

Strategy = Literal["block", "redact", "warn"]
HIDDEN = "[hidden]"
"""What stands for the matched text in a tripwire's metadata."""

_MOST_TOLD = 100  # matches in a tripwire's metadata; the counts are of all


F = TypeVar("F", "Match", "UnitedMatches")


class Found(NamedTuple):
    """A text in which something was found."""

    window: TextWindow
    matches: list[Match]


class RegexFilterProcessor(TextGuard):
    """Blocks, redacts or reports what rules find, in texts of every kind and in tools' arguments and results.

    As a guard its failure blocks: a rule that takes too long, or a validator that raises, lets nothing through. With
    ``strategy="warn"`` it only watches.

    Attributes:
        findings: the fact under which it tells how often which rule matched in the run: ``{"email": 2}``.
    """

    id = "regex-filter"
    role: ProcessorRole = "guard"
    on_error: ErrorPolicy = "block"

    def __init__(
        self,
        rules: Iterable[RegexRule | Mapping[str, Any]] = (),
        *,
        presets: Iterable[str] = (),
        strategy: Strategy = "block",
        phase: Phase = "all",
        include_redacted_values: bool = False,
        stream_carryover_size: int | None = None,
        parts: Iterable[str] | None = None,
        history: bool = False,
        system: bool = False,
        timeout: float = 0.5,
        on_violation: Callable[[Violation], object] | None = None,
        id: str | None = None,
    ) -> None:
        """Check the options and compile the rules.

        Args:
            rules: one's own rules; those of presets come first.
            presets: any of ``pii``, ``secrets``, ``urls``.
            strategy: ``block`` stops the run, ``redact`` puts each rule's replacement in place, ``warn`` reports only.
            phase: ``input`` (what goes to the model: the caller's messages and tools' results), ``output`` (what comes
                from it: answers and calls to tools) or ``all``.
            include_redacted_values: give the matched texts to ``on_violation``; they go nowhere else.
            stream_carryover_size: how many characters of a stream are held back at least; None: no more than must be.
            parts: the kinds of parts to look into; all that carry text but ``data`` by default.
            history: look at the whole conversation before each model call too.
            system: look at system messages too.
            timeout: how many seconds a rule of one's own may take on one text.
            on_violation: called, not awaited, once for each text in which something was found.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed, no rule at all, or a rule that does not compile.
        """
        name = type(self).__name__
        if id is not None:
            self.id = id
        self.presets = _presets(name, presets)
        self.strategy: str = one_of(name, "strategy", strategy, get_args(Strategy))
        self.timeout = seconds(name, "timeout", timeout)
        self.rules = tuple(rules)
        own = [checked(name, index, rule, self.timeout) for index, rule in enumerate(self.rules)]
        self.finder = Finder([*(rule for chosen in self.presets for rule in preset(chosen)), *own])
        if not self.finder.rules:
            raise OptionError(name, "rules", self.rules, f"one rule or more, or presets= of {', '.join(PRESETS)}")
        self.place(phase, parts, history=history, system=system)
        self.include_redacted_values = flag(name, "include_redacted_values", include_redacted_values)
        self.stream_carryover_size = _carryover(name, stream_carryover_size)
        self.min_hold = self.stream_carryover_size or 0
        self.lookback = self.finder.lookback
        self.on_violation = _callback(name, on_violation)
        self.edits = "spans" if strategy == "redact" else "nothing"
        if strategy == "warn":
            self.role = "observer"
            self.on_error = "allow"
        chosen = [*self.presets, *(rule.name for rule in own)]
        self.findings: Key[Mapping[str, int]] = Key(f"{self.id}.matches[{', '.join(chosen)}: {strategy}]")
        self.provides = (self.findings,)

    def scan(self, window: TextWindow, ctx: AnyContext) -> tuple[Sequence[Match], int]:
        """Return what the rules find, and from where on more text could change it."""
        try:
            if window.final and not window.base and not window.start:
                return self.finder.find(window.text, window.key), len(window.text)
            if window.key and not window.final:
                return self.finder.scan_value(window.text, window.key)
            state: FinderState = window.notes.setdefault("state", FinderState())
            if window.final:
                return self.finder.finish(window.text, window.start, state), len(window.text)
            return self.finder.scan(window.text, window.start, state)
        except TimeoutError as error:
            ctx.note(timeout=str(error))
            raise

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits that redact, or none; block through the context. Counts go to record and fact."""
        found = [Found(hit.window, cast("list[Match]", hit.found)) for hit in hits]
        if self.strategy == "redact":
            return self._redact(ctx, found)
        counts = Counter(self._name(match) for hit in found for match in hit.matches)
        self._tell(ctx, counts)
        for hit in found:
            self._report(ctx, hit.window, hit.matches, self._as_match)
        if self.strategy == "block":
            self._block(ctx, found, counts)
        log.warning("%s: rules matched in %s: %s", ctx.step_path, ctx.stage, ", ".join(counts))
        return [()] * len(hits)

    def _redact(self, ctx: AnyContext, hits: list[Found]) -> Sequence[Iterable[Edit]]:
        edits: list[Iterable[Edit]] = []
        counts: Counter[str] = Counter()
        for hit in hits:
            regions = self.finder.unite(hit.window.text, hit.matches)
            counts.update(self._name(region) for region in regions)
            self._report(ctx, hit.window, regions, self._as_redaction)
            edits.append([Edit(r.start, r.end, r.replacement, "redact") for r in regions])
        self._tell(ctx, counts)
        fixed = [hit for hit in hits if hit.window.fixed]
        if fixed:
            self._block(ctx, fixed, counts, why="a number cannot be redacted in place; ")
        return edits

    def _block(self, ctx: AnyContext, hits: list[Found], counts: Mapping[str, int], why: str = "") -> None:
        matches = [self._told(hit.window, match) for hit in hits for match in hit.matches]
        names = ", ".join(dict.fromkeys(str(match["rule"]) for match in matches))
        ctx.abort(
            f"{why}the text holds what may not pass: {names}",
            metadata={"strategy": self.strategy, "matches": matches[:_MOST_TOLD], "counts": dict(counts)},
        )

    def _told(self, window: TextWindow, match: Match) -> dict[str, object]:
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

    def _tell(self, ctx: AnyContext, counts: Mapping[str, int]) -> None:
        tell(ctx, self.findings, counts)
        told = ctx.get(self.findings) if ctx.stage == "process_output_stream" else None
        ctx.note(matches=dict(told or counts))

    def _report(
        self, ctx: AnyContext, window: TextWindow, found: Sequence[F], told: Callable[[TextWindow, F], PatternMatch]
    ) -> None:
        """Call ``on_violation``, once for each place; an error in it is logged, and is not the guard's failure."""
        if self.on_violation is None:
            return
        places: dict[TextPlace, list[PatternMatch]] = {}
        for item in found:
            places.setdefault(window.locate(item.start)[0], []).append(told(window, item))
        for place, matches in places.items():
            self._tell_violation(ctx, place, matches, self.on_violation)

    def _tell_violation(
        self,
        ctx: AnyContext,
        place: TextPlace,
        matches: Sequence[PatternMatch],
        callback: Callable[[Violation], object],
    ) -> None:
        names = ", ".join(dict.fromkeys(match.rule for match in matches))
        violation = Violation(
            self.id,
            f"rules matched: {names}",
            self.strategy,
            ctx.stage,
            place.message_id,
            place.part,
            str(place.path[0]) if place.path else "",
            tuple(matches),
        )
        try:
            callback(violation)
        except Exception as error:
            # The traceback may show what the callback was given, so it is left out where that is the matched text.
            trace = None if self.include_redacted_values else error
            log.error("%s: on_violation raised %s", ctx.step_path, type(error).__name__, exc_info=trace)  # noqa: TRY400

    def _as_match(self, window: TextWindow, match: Match) -> PatternMatch:
        _, index = window.locate(match.start)
        value = self._matched(window, match.start, match.end)
        return PatternMatch(self._name(match), index, match.end - match.start, value=value)

    def _as_redaction(self, window: TextWindow, region: UnitedMatches) -> PatternMatch:
        names = tuple(dict.fromkeys(self.finder.rules[index].name for index in region.rules))
        return PatternMatch(
            self._name(region),
            window.locate(region.start)[1],
            region.end - region.start,
            region.replacement,
            names if len(names) > 1 else (),
            self._matched(window, region.start, region.end),
        )

    def _name(self, found: Match | UnitedMatches) -> str:
        return self.finder.rules[found.rule].name

    def _matched(self, window: TextWindow, start: int, end: int) -> str | None:
        return window.text[start:end] if self.include_redacted_values else None


def _presets(processor: str, given: Iterable[str]) -> tuple[str, ...]:
    chosen = (given,) if isinstance(given, str) else tuple(given)
    for name in chosen:
        one_of(processor, "presets", name, PRESETS)
    return tuple(dict.fromkeys(chosen))


def _carryover(processor: str, given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise OptionError(processor, "stream_carryover_size", given, "a positive int, or None")
    return int(given)


def _callback(processor: str, given: Any) -> Callable[[Violation], object] | None:
    if given is not None and (not callable(given) or inspect.iscoroutinefunction(given)):
        raise OptionError(processor, "on_violation", given, "a function that is called, not awaited")
    return given  # type: ignore[no-any-return]
