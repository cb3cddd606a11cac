"""`RegexFilterProcessor`: blocks, redacts or reports what patterns find, wherever text stands. It asks no model."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from penstock.engine.edits import Edit
from penstock.engine.errors import OptionError
from penstock.engine.facts import Key
from penstock.engine.processor import one_of
from penstock.processors.text._places import WholeTexts, flag, tell
from penstock.processors.text.matching import Finder, Match
from penstock.processors.text.presets import PRESETS, preset
from penstock.processors.text.reports import PatternMatch, Violation
from penstock.processors.text.rules import checked, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.engine.context import Context
    from penstock.engine.edits import Edits
    from penstock.engine.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.texts import TextPlace
    from penstock.processors.text._places import Phase, Text
    from penstock.processors.text.matching import Region
    from penstock.processors.text.rules import RegexRule

log = logging.getLogger("penstock")

Strategy = Literal["block", "redact", "warn"]
HIDDEN = "[hidden]"
"""What stands for the matched text in a tripwire's metadata."""

_MOST_TOLD = 100  # matches in a tripwire's metadata; the counts are of all


class Hit(NamedTuple):
    """A text in which something was found."""

    text: Text
    matches: list[Match]


class RegexFilterProcessor(WholeTexts):
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
        stream_carryover_size: int = 128,
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
            stream_carryover_size: how many characters of a stream are held back at least.
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
        self.on_violation = _callback(name, on_violation)
        self.edits = "spans" if strategy == "redact" else "nothing"
        if strategy == "warn":
            self.role = "observer"
            self.on_error = "allow"
        chosen = [*self.presets, *(rule.name for rule in own)]
        self.findings: Key[Mapping[str, int]] = Key(f"{self.id}.matches[{', '.join(chosen)}: {strategy}]")
        self.provides = (self.findings,)

    def judge(self, ctx: Context[Any], texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits that redact, or none; block through the context. Counts go to record and fact."""
        hits = list(self._hits(ctx, texts))
        if not hits:
            return {}
        if self.strategy == "redact":
            return self._redact(ctx, hits)
        counts = Counter(self._name(match) for hit in hits for match in hit.matches if not match.tail)
        self._tell(ctx, counts)
        for hit in hits:
            self._report(ctx, hit, [self._as_match(hit.text, match) for match in hit.matches])
        if self.strategy == "block":
            self._block(ctx, hits, counts)
        log.warning("%s: rules matched in %s: %s", ctx.step_path, ctx.stage, ", ".join(counts))
        return {}

    def _hits(self, ctx: Context[Any], texts: list[Text]) -> Iterator[Hit]:
        try:
            across = self._across(texts)
            for text in texts:
                matches = [*self.finder.find(text.text, text.key), *across.get(text.place, ())]
                if matches:
                    yield Hit(text, matches)
        except TimeoutError as error:
            ctx.note(timeout=str(error))
            raise

    def _across(self, texts: list[Text]) -> dict[TextPlace, list[Match]]:
        """Return what is found only if neighbouring text parts of a message are read as one, by part."""
        found: dict[TextPlace, list[Match]] = {}
        for run in _neighbours(texts):
            begin, begins = 0, list[int]()
            for text in run:
                begins.append(begin)
                begin += len(text.text)
            whole = "".join(text.text for text in run)
            for match in self.finder.find(whole):
                pieces = list(_cut(match, begins, len(whole)))
                if len(pieces) > 1:
                    for index, piece in pieces:
                        found.setdefault(run[index].place, []).append(piece)
        return found

    def _redact(self, ctx: Context[Any], hits: list[Hit]) -> Mapping[TextPlace, Edits]:
        edits: dict[TextPlace, Edits] = {}
        counts: Counter[str] = Counter()
        fixed: list[Hit] = []
        for hit in hits:
            regions = self.finder.unite(hit.text.text, hit.matches)
            counts.update(self._name(region) for region in regions if not region.tail)
            self._report(ctx, hit, [self._as_redaction(hit.text, region) for region in regions])
            if hit.text.fixed:
                fixed.append(hit)
            else:
                edits[hit.text.place] = tuple(Edit(r.start, r.end, r.replacement, "redact") for r in regions)
        self._tell(ctx, counts)
        if fixed:
            self._block(ctx, fixed, counts, why="a number cannot be redacted in place; ")
        return edits

    def _block(self, ctx: Context[Any], hits: list[Hit], counts: Mapping[str, int], why: str = "") -> None:
        matches = [
            {
                "rule": self._name(match),
                "index": match.start,
                "length": match.end - match.start,
                "match": HIDDEN,
                "message_id": hit.text.place.message_id,
                "part": hit.text.place.part,
                "field": hit.text.place.path[0],
            }
            for hit in hits
            for match in hit.matches
        ]
        names = ", ".join(dict.fromkeys(str(match["rule"]) for match in matches))
        ctx.abort(
            f"{why}the text holds what may not pass: {names}",
            metadata={"strategy": self.strategy, "matches": matches[:_MOST_TOLD], "counts": dict(counts)},
        )

    def _tell(self, ctx: Context[Any], counts: Mapping[str, int]) -> None:
        ctx.note(matches=dict(counts))
        tell(ctx, self.findings, counts)

    def _report(self, ctx: Context[Any], hit: Hit, matches: Sequence[PatternMatch]) -> None:
        """Call ``on_violation``; an error in it is logged, and is not the guard's failure."""
        if self.on_violation is None:
            return
        names = ", ".join(dict.fromkeys(match.rule for match in matches))
        place = hit.text.place
        violation = Violation(
            self.id,
            f"rules matched: {names}",
            self.strategy,
            ctx.stage,
            place.message_id,
            place.part,
            str(place.path[0]),
            tuple(matches),
        )
        try:
            self.on_violation(violation)
        except Exception as error:
            # The traceback may show what the callback was given, so it is left out where that is the matched text.
            trace = None if self.include_redacted_values else error
            log.error("%s: on_violation raised %s", ctx.step_path, type(error).__name__, exc_info=trace)  # noqa: TRY400

    def _as_match(self, text: Text, match: Match) -> PatternMatch:
        return PatternMatch(
            self._name(match), match.start, match.end - match.start, value=self._matched(text, match.start, match.end)
        )

    def _as_redaction(self, text: Text, region: Region) -> PatternMatch:
        names = tuple(dict.fromkeys(self.finder.rules[index].name for index in region.rules))
        return PatternMatch(
            self._name(region),
            region.start,
            region.end - region.start,
            region.replacement,
            names if len(names) > 1 else (),
            self._matched(text, region.start, region.end),
        )

    def _name(self, found: Match | Region) -> str:
        return self.finder.rules[found.rule].name

    def _matched(self, text: Text, start: int, end: int) -> str | None:
        return text.text[start:end] if self.include_redacted_values else None


def _neighbours(texts: list[Text]) -> Iterator[list[Text]]:
    """Yield runs of two or more text parts that follow one another in a message."""
    run: list[Text] = []
    for text in [text for text in texts if text.kind == "text"]:
        last = run[-1].place if run else None
        if last is None or (last.message_id, last.part + 1) != (text.place.message_id, text.place.part):
            if len(run) > 1:
                yield run
            run = []
        run.append(text)
    if len(run) > 1:
        yield run


def _cut(match: Match, begins: list[int], size: int) -> Iterator[tuple[int, Match]]:
    """Yield the pieces of a match in texts that were read as one, with their texts' indexes; the later are tails."""
    first = True
    for index, begin in enumerate(begins):
        end = begins[index + 1] if index + 1 < len(begins) else size
        low, high = max(match.start, begin), min(match.end, end)
        if low < high:
            yield index, Match(low - begin, high - begin, match.rule, not first)
            first = False


def _presets(processor: str, given: Iterable[str]) -> tuple[str, ...]:
    chosen = (given,) if isinstance(given, str) else tuple(given)
    for name in chosen:
        one_of(processor, "presets", name, PRESETS)
    return tuple(dict.fromkeys(chosen))


def _carryover(processor: str, given: object) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise OptionError(processor, "stream_carryover_size", given, "a positive int")
    return given


def _callback(processor: str, given: Any) -> Callable[[Violation], object] | None:
    if given is not None and (not callable(given) or inspect.iscoroutinefunction(given)):
        raise OptionError(processor, "on_violation", given, "a function that is called, not awaited")
    return given  # type: ignore[no-any-return]
