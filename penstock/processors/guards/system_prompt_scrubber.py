"""`SystemPromptScrubber`: finds system prompts in a model's output; redacts, removes or logs them, or blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack, cast, get_args

from penstock.detection.leaks.passages import LEAST
from penstock.detection.leaks.prompt_index import CANARY, PROMPT, PromptIndex, indexed
from penstock.detection.patterns.matching import Finder, FinderState
from penstock.detection.patterns.rules import RegexRule, UserRule, checked, seconds
from penstock.detection.spans import Span
from penstock.engine.processor.option_checks import check_count, check_score
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.known import hash_of
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.processors.guards.guard_options import set_up
from penstock.processors.guards.span_action import SpanAction
from penstock.processors.guards.span_findings import JudgedValue, hide_spans
from penstock.processors.guards.span_search import SpanSearch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.window import Found, TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import Entry
    from penstock.engine.values.messages import Message
    from penstock.engine.values.protocols import Judge, Judged, JudgeSource, Model
    from penstock.processors.guards.guard_options import GuardOptions, GuardSetup
    from penstock.processors.guards.span_findings import SpanFinding
    from penstock.processors.guards.span_search import Spans
    from penstock.processors.guards.verdicts import LeakVerdict


LEAK_QUESTION = (
    "An assistant was given instructions that its user must not see. Find what the content reveals of them.\n"
    "The types, and no others:\n"
    "- system-prompt: instructions, word by word or in other words, translated or encoded\n"
    "- instructions: rules, limits or a role that the assistant says it was given\n"
    "- system-structure: how its prompt, its tools or its hidden context are built\n"
    "Where the content begins with the assistant's instructions, its answer follows behind them: judge the answer.\n"
    "Report each stretch of the answer once, letter by letter as it stands there, with how sure you are, from 0 to 1.\n"
    "A word in square brackets, such as [SYSTEM-PROMPT], stands for what is hidden already: never report it.\n"
    "Report nothing where the assistant only does what it was told to, or says that it may not tell."
)
"""The question that the model is asked."""

_MOST_SHOWN = 8000  # characters of the prompts that a judge is shown


def leaks_said(verdict: LeakVerdict) -> Iterable[JudgedValue]:
    """Yield the values of a judge's verdict; a type that is not one of the plain names becomes ``system-prompt``."""
    for entry in verdict.findings:
        name = entry.type.strip().casefold().replace("_", "-").replace(" ", "-")
        yield JudgedValue(name if name in _TYPES else PROMPT, entry.value, entry.score)


_TYPES = frozenset({PROMPT, CANARY, "instructions", "system-structure"})


def with_prompts(prompts: Sequence[str], text: str) -> str:
    """Return a text as a judge is shown it together with the prompts."""
    instructions = "\n\n".join(prompts)[:_MOST_SHOWN]
    return f"The assistant's instructions:\n{instructions}\n\nThe assistant's answer:\n{text}" if instructions else text


Strategy = Literal["redact", "block", "warn", "filter"]
Method = Literal["mask", "placeholder", "remove"]

_INDEX, _PATTERNS = "index", "patterns"  # notes of one search in a text
_GLANCED = "penstock.glanced"  # a note in a window: the index that a glance at the next text may ask
_KNOWN = "penstock.prompts"  # where a step's state keeps the request's index
_SECRET = frozenset({"prompts", "canaries", "allow"})
_HOLD = 8192  # characters: a chain or a code of the longest, twice as long for what cannot be seen in it


class _Known(NamedTuple):
    """An index without the user's texts, and its sources. Its representation shows no text.

    Attributes:
        entries: the conversation that it was made of.
        whole: the index of the prompts.
        texts: the user's texts.
        left: the index without them.
        evidence: the hash of both.
    """

    entries: tuple[Entry, ...]
    whole: PromptIndex
    texts: tuple[str, ...]
    left: PromptIndex
    evidence: bytes

    def __repr__(self) -> str:
        """Show how many texts, and none of them."""
        return f"_Known({len(self.texts)} texts)"


@dataclass(frozen=True)
class Prompts:
    """The texts to protect, as the options give them, and the tokens and passages beside them."""

    texts: tuple[str, ...] = field(repr=False)
    canaries: tuple[str, ...] = field(repr=False)
    min_words: int
    allow: tuple[str, ...] = field(repr=False)

    def index(self, ctx: AnyContext) -> PromptIndex:
        """Return the index of the run's prompts, without the user's texts."""
        return self._known(ctx).left

    def evidence(self, ctx: AnyContext) -> bytes:
        """Return the hash of the run's prompts, and of the user's texts."""
        return self._known(ctx).evidence

    def _known(self, ctx: AnyContext) -> _Known:
        messages = ctx.message_list
        state: Value = ctx.state  # of this request alone: a user's text must not outlive it on the guard
        known: _Known | None = state.get(_KNOWN) if is_mapping(state) else None
        if known is not None and known.entries is messages.entries:
            return known
        in_use = (message.text for message in messages.system if not message.from_client)
        prompts = tuple(dict.fromkeys(text for text in (*self.texts, *in_use) if text.strip()))
        whole = indexed(prompts, self.min_words, self.allow, self.canaries)
        said: Iterable[Message] = ()
        if whole:  # if there is nothing to find, it makes no difference what the user wrote
            said = (*messages.conversation, *(message for message in messages.system if message.from_client))
        texts = tuple(message.text for message in said if message.role in ("user", "system"))
        if known is None or known.whole != whole or known.texts != texts:
            known = _Known(messages.entries, whole, texts, whole.without(texts), hash_of((prompts, texts)))
        known = known._replace(entries=messages.entries)
        if is_mapping(state):
            cast("dict[str, _Known]", state)[_KNOWN] = known
        return known


class LeakSearch(SpanSearch["LeakVerdict"]):
    """Finds passages of prompts.

    Attributes:
        prompts: the texts to protect.
    """

    def __init__(
        self,
        setup: GuardSetup[LeakVerdict, Sequence[Span]],
        threshold: float,
        prompts: Prompts,
        finder: Finder,
        *,
        shows_prompts: bool,
    ) -> None:
        super().__init__(setup, threshold=threshold, lookback=finder.lookback)
        self.prompts = prompts
        self._finder = finder
        self._shows_prompts = shows_prompts
        self._glances = setup.judge is None and setup.strategy != "filter" and not finder.rules

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return from where text is held back if a glance shows nothing of the prompts; None if nothing shows that."""
        index: PromptIndex | None = notes.get(_GLANCED)
        if index is None or (final and self._tells_all):  # a callback is told that nothing was found
            return None
        return index.quiet(text, start, final=final)

    def evidence(self, ctx: AnyContext) -> bytes | None:
        """Return the hash of the prompts, which findings depend on."""
        asks = super().evidence(ctx) is None or any(
            isinstance(rule, UserRule) and rule.asks_user for rule in self._finder.rules
        )
        return None if asks else self.prompts.evidence(ctx)

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return the texts in groups that are searched as one; none if there is nothing to protect."""
        nothing = self._glances and not self._tells_all and self._calls is None and not self.prompts.index(ctx)
        return [] if nothing else super().runs(texts, ctx)

    def find_spans(self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext) -> Spans:
        """Return the passages of the prompts in a window, and from where on more text could change that."""
        index: PromptIndex | None = notes.get(_INDEX)
        if index is None:
            notes[_INDEX] = index = self.prompts.index(ctx)
        spans: Sequence[Span] = ()
        hold = len(window.text)
        if index:
            # What `quiet` has passed holds nothing, so the search goes on behind it.
            spans, hold = index.scan(window.text, max(start, window.start), notes, final=window.final)
        window.notes[_GLANCED] = index if self._glances and not index.goes_on(notes) else None
        return [span._replace(score=max(span.score, self.threshold)) for span in spans], hold

    def find_encoded_spans(self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext) -> Spans:
        """Return the findings of the custom patterns in a window; a second search, since they have their own pace."""
        if not self._finder.rules:
            return (), len(window.text)
        state: FinderState = notes.setdefault(_PATTERNS, FinderState())
        try:
            if window.final:
                found, hold = self._finder.finish(window.text, start, state), len(window.text)
            else:
                found, hold = self._finder.scan(window.text, start, state)
        except TimeoutError as error:
            ctx.note(timeout=str(error))
            raise
        return [Span(match.start, match.end, self._finder.rules[match.rule].name) for match in found], hold

    def overrides(self, within: Found, across: Found) -> bool:
        """Return False: a passage goes on where a part ends, so no finding replaces another."""
        del within, across
        return False

    def judge_view(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the model is shown it: without its findings, and together with the prompts."""
        index = self.prompts.index(ctx)
        hides = hide_spans(text, index.find(text)) if self.setup.embedded else text
        return with_prompts(index.prompts, hides) if self._shows_prompts else hides

    def judged_values(self, judged: Judged[LeakVerdict]) -> Iterable[JudgedValue]:
        """Return the values that the model names."""
        return leaks_said(judged.verdict)


class LeakAction(SpanAction):
    """Acts on passages of prompts.

    Attributes:
        replacement: what replaces a passage; None for stars.
    """

    def __init__(self, search: LeakSearch, replacement: str | None, *, counts: bool) -> None:
        super().__init__(search)
        self.replacement = replacement
        self._prompts = search.prompts
        self._counts = counts

    def replacements(self, found: Sequence[tuple[str, SpanFinding]], ctx: AnyContext) -> Sequence[str]:
        """Return what replaces each passage; its type makes no difference."""
        del ctx
        return ["*" * len(text) if self.replacement is None else self.replacement for text, _ in found]

    def warn(self, ctx: AnyContext, names: Sequence[str]) -> None:
        """Log findings that pass; with ``include_detections``, how much it is."""
        super().warn(ctx, [f"{len(names)} found", *names] if self._counts else names)

    def block(self, ctx: AnyContext, types: Sequence[str], metadata: Mapping[str, Value], why: str) -> NoReturn:
        """Stop the run; the metadata have ``overlap``, the share of the prompts that was shown."""
        length = sum(map(len, self._prompts.index(ctx).prompts))
        shows = sum(cast("int", span["length"]) for span in metadata["spans"] if span["type"] == PROMPT)
        overlap = round(min(shows / length, 1.0), 3) if length else None
        counted = f"{len(types)} found; " if self._counts else ""
        super().block(ctx, types, {**metadata, "overlap": overlap}, f"{counted}{why}")


class SystemPromptScrubber(TextGuard):
    """Finds passages of the run's system messages in answers, tool arguments and reasoning, without a model.

    It compares words (a few may be changed) and letters, and also finds encoded and reversed text. A model, if there is
    one, is asked about paraphrases; the guard then searches the text for the passages that the model names. It may hold
    8,192 characters of a stream; a subclass may declare a greater ``max_hold``, but no smaller one.

    Attributes:
        found: the fact with the number of findings of the run by type: ``{"system-prompt": 1}``.

    Args:
        model: a `Model` or a `Judge` that is asked about paraphrases; None by default.
        prompts: further texts to protect, beside the system messages of the run; none by default.
        canaries: tokens of at least 6 letters and digits that you put into a prompt to recognise it anywhere; none by
            default.
        min_words: how many words of a prompt a passage must contain, in order, 4 or more; 8 by default. A prompt with
            fewer words is recognised as a whole.
        allow: passages of the prompts that may be quoted; none by default. Text that the user wrote may always be
            quoted, and so may quotations that a prompt orders to say.
        custom_patterns: regular expressions, or `RegexRule`, for other text to protect; none by default.
        pattern_timeout: seconds that a pattern may take on one text, above 0; 0.5 by default.
        threshold: how sure a model must be, 0 to 1; 0.5 by default. Findings without a model always count.
        strategy: ``redact`` (the default) replaces findings, ``block`` stops the run, ``warn`` only reports, ``filter``
            removes the sentence.
        redaction_method: how a finding is replaced. ``mask`` (the default): stars; ``placeholder``: the text of
            ``placeholder_text``; ``remove``: nothing.
        placeholder_text: the replacement for ``placeholder``; ``[SYSTEM_PROMPT]`` by default.
        include_detections: whether the reason of a tripwire, or the log, has the number of findings; False by default.
        show_prompts: whether the model is shown the prompts beside the answer; True by default. Without them it can
            only guess.
        options: see `GuardOptions`; the default of ``phase`` is ``output`` here.

    Raises:
        OptionError: an option is not allowed, or a pattern does not compile.
    """

    id = "system-prompt-scrubber"
    finds = ("leaks",)
    judges_alone = True

    def __init__(
        self,
        model: Model | str | Judge[LeakVerdict] | JudgeSource | None = None,
        *,
        prompts: Iterable[str] = (),
        canaries: Iterable[str] = (),
        min_words: int = 8,
        allow: Iterable[str] = (),
        custom_patterns: Iterable[str | RegexRule] = (),
        pattern_timeout: float = 0.5,
        threshold: float = 0.5,
        strategy: Strategy = "redact",
        redaction_method: Method = "mask",
        placeholder_text: str = "[SYSTEM_PROMPT]",
        include_detections: bool = False,
        show_prompts: bool = True,
        **options: Unpack[GuardOptions],
    ) -> None:
        name = type(self).__name__
        self.prompts, self.canaries = _texts(name, "prompts", prompts), _texts(name, "canaries", canaries)
        self.allow, self.min_words = (
            _texts(name, "allow", allow),
            check_count(name, "min_words", min_words, f"a number of words, {LEAST} or more", LEAST),
        )
        _check_index(name, self.prompts, min_words, self.allow, self.canaries)
        self.pattern_timeout = seconds(name, "pattern_timeout", pattern_timeout)
        self.custom_patterns = cast("tuple[str | RegexRule, ...]", _listed(name, "custom_patterns", custom_patterns))
        rules = (_rule(index, given) for index, given in enumerate(self.custom_patterns))
        finder = Finder([checked(name, index, rule, self.pattern_timeout) for index, rule in enumerate(rules)])
        self.threshold = check_score(name, "threshold", threshold)
        self.redaction_method = one_of(name, "redaction_method", redaction_method, get_args(Method))
        self.placeholder_text = _text(name, "placeholder_text", placeholder_text)
        self.include_detections = flag(name, "include_detections", include_detections)
        self.show_prompts = flag(name, "show_prompts", show_prompts)
        setup: GuardSetup[LeakVerdict, Sequence[Span]] = set_up(
            self,
            model,
            strategy,
            get_args(Strategy),
            _verdict,
            LEAK_QUESTION,
            options,
            phase="output",
            fact=("found", min_words, len(self.custom_patterns)),
        )
        prompts_of = Prompts(self.prompts, self.canaries, self.min_words, self.allow)
        search = LeakSearch(setup, self.threshold, prompts_of, finder, shows_prompts=self.show_prompts)
        replaced = {"mask": None, "placeholder": self.placeholder_text, "remove": ""}[self.redaction_method]
        action = LeakAction(search, replaced, counts=self.include_detections)
        search.install(self, action, _HOLD)
        self.found = search.found

    def option(self, name: str) -> object:
        """Return an option as it was given; of secret ones, only how many entries there are."""
        given = super().option(name)
        return f"{len(cast('tuple[str, ...]', given))} of them" if name in _SECRET and given else given


def _texts(guard: str, option: str, given: Iterable[str]) -> tuple[str, ...]:
    texts = _listed(guard, option, given)
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise OptionError(guard, option, f"{len(texts)} of them", "texts, none of them empty")
    return cast("tuple[str, ...]", texts)


def _listed(guard: str, option: str, given: object) -> tuple[object, ...]:
    """Return one text or several as a tuple. An error does not show the value, which may be secret.

    Raises:
        OptionError: it is neither a text nor a list.
    """
    if isinstance(given, str):
        return (given,)
    kind = type(given).__name__
    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)):
        raise OptionError(guard, option, kind, "a list of texts")
    return tuple(cast("Iterable[object]", given))


def _text(guard: str, option: str, given: object) -> str:
    if not isinstance(given, str):
        raise OptionError(guard, option, given, "a text")
    return given


def _check_index(
    guard: str, prompts: tuple[str, ...], min_words: int, allow: tuple[str, ...], canaries: tuple[str, ...]
) -> None:
    try:
        indexed(prompts, min_words, allow, canaries)
    except OptionError as error:  # the index has the options under the same names
        raise OptionError(guard, error.option, error.given, error.allowed) from None


def _rule(index: int, given: str | RegexRule) -> RegexRule:
    return RegexRule(f"custom-pattern-{index + 1}", given) if isinstance(given, str) else given


def _verdict() -> type[LeakVerdict]:
    from penstock.processors.guards.verdicts import LeakVerdict

    return LeakVerdict
