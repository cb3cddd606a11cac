"""`TextGuard`: the base class of guards over text. All of its stages, streams included, follow from `find` and `hold`.

Whole texts are judged here; `penstock.engine.streams` judges streams. Both read texts with a `TextReader`.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.processor.payload import TextEdits
from penstock.engine.processor.processor import CLAIMS, Processor, given_options, is_async, option_parameters
from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.tasks import gather, run_without_loop, runs_without_loop
from penstock.engine.text_guards.arguments import decides_what_runs
from penstock.engine.text_guards.calls import acted, check_edits, in_places, scan_or_move, window_of
from penstock.engine.text_guards.clean_texts import forget
from penstock.engine.text_guards.components import EDITS, NO_SEARCH, Action, Search, adjoins
from penstock.engine.text_guards.fixed import fixing, refuse_change, refuse_moved
from penstock.engine.text_guards.known import KnownTexts, PlaceEdits, has_failed, in_stage, known_texts, writes
from penstock.engine.text_guards.reading import (
    ORIGINAL,
    Unread,
    distinct,
    holds_unread,
    message_texts,
    unread_bodies,
    value_texts,
)
from penstock.engine.text_guards.reporting import named_field
from penstock.engine.text_guards.scope import PHASES, TextScope
from penstock.engine.text_guards.views import view_of_value
from penstock.engine.text_guards.window import (
    Found,
    Hit,
    TextReader,
    TextWindow,
    checked_position,
    checked_scan,
    looks_at_all,
    moved,
    span,
)
from penstock.engine.values.errors import OptionError, ProcessorError, UsageError
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.engine.values.json_text import fit_json
from penstock.engine.values.messages import ToolPart
from penstock.engine.values.texts import TextPlace
from penstock.engine.workers import PIECE, checkpoint, run_in_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
    from types import CodeType

    from penstock.engine.processor.context import (
        AnyContext,
        InputContext,
        InputStepContext,
        OutputResultContext,
        OutputStepContext,
        OutputStreamContext,
        ToolCallContext,
        ToolResultContext,
    )
    from penstock.engine.processor.processor import AnyProcessor, ErrorPolicy, ProcessorRole
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.window import Notes, Scanned
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message

Changes: TypeAlias = "Value"
"""What the methods of stages return: None, a changed list, or edits; awaitable if the guard is async."""

MAX_HOLD = 4096
"""Characters of a stream that a guard may hold back by default; a guard that needs more has failed.

The longest key block that `penstock.detection.secrets.shapes` finds follows from it.
"""


_MANY = 100  # texts and findings in them that one step of the event loop may act on

_FOUND_TO = "penstock.found_to"  # a note in a window: where the last decided finding ended; no finding goes across that


class TextGuard(Processor):
    """Base class of guards that search text, whole or streamed, and redact what they find or stop the run.

    Write `find`, which returns edits or aborts. Set ``reach``, or write `hold`, so that a stream holds back enough
    text. The text that leaves a stream is then the same as for the whole text, however the stream is cut into chunks.

    Or set ``search`` and ``action`` in the constructor: components that find something, and that act on it. The
    methods of the same names then call them.

    Attributes:
        reach: the largest length of a finding in characters, plus the characters after it that `find` looks at. None:
            unknown, so a stream is held back to its end.
        lookback: how many characters before a finding `find` must see in a stream.
        min_hold: the smallest number of characters of a stream to hold back, at most ``max_hold``. A finding that
            reaches into them is held back whole, so leave room for the longest one.
        max_hold: the largest number of characters of a stream to hold back; if more are needed, the guard fails. It
            does not limit whole texts, nor the arguments of a tool call, which are judged once they are complete.
        read_parts_separately: whether neighbouring text parts of a message are searched separately as well as together;
            if not, only together. Set it to False if `find` asks a model, so that it asks once.
        numbers: what becomes of a number in a JSON value, or in JSON text, in which something is edited: ``null``, or
            a string with the edited ``text``.
        arguments: what a guard does that would change an argument of a tool call that is a command, code, a path or an
            address: ``block``, so that nothing else runs than the model wrote, or ``redact`` it as elsewhere.
        judges_alone: whether findings depend on a text and its place alone: its kind, its key and its path, and whether
            it goes to the model or comes from it. Such a guard does not read a text again that it knows to be clean, in
            no later stage and no later request. Declare it in the class, and only if `find` needs nothing else: no
            other message, no fact, no clock, no list that grows, nobody that is asked. False by default; a subclass
            that overrides a method of the search declares it anew.
        known_bytes: how many bytes the hashes of clean texts may take, for this guard; 4 MB by default, 0 for none.
        scope: which texts it reads; set it in the constructor.
        search: the component that finds something; if there is none, `find` or `scan` is written.
        action: the component that acts on findings; by default they are edits, and are made.
    """

    claim_names = (*CLAIMS, "reach", "lookback", "min_hold", "max_hold", "read_parts_separately")
    role: ProcessorRole = "guard"
    on_error: ErrorPolicy = "block"
    stages: Iterable[str] | None = PHASES["all"]
    offloadable = True
    reach: int | None = None
    lookback: int = 64
    min_hold: int = 0
    max_hold: int = MAX_HOLD
    read_parts_separately: bool = True
    numbers: str = "null"
    arguments: str = "block"
    judges_alone: bool = False
    known_bytes: int = 4_000_000

    judges_by_text: bool = False
    """Whether it judges alone, and no method of the search was overridden since that was declared."""
    scope: TextScope = TextScope()
    search: Search = NO_SEARCH
    action: Action = EDITS

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Note whether its `find` or `scan`, or that of its search, is async.

        A class that writes a search of its own, and no `quiet`, does not inherit one, which knows another search; nor
        does one that has such a method from a mixin.
        """
        super().__init_subclass__(**kwargs)
        cls.awaits = any(map(is_async, (cls.find, cls.scan, getattr(cls.search, "scan", None))))
        if cls.__module__.startswith("penstock.") and "__init__" in vars(cls):
            cls.__init__ = fixing(cls.__init__, TextGuard)  # type: ignore[method-assign] # the same, and its options are fixed
        cls.judges_by_text = cls.judges_alone and _declares(cls, "judges_alone", _JUDGING)
        if not _declares(cls, "quiet", _SEARCHING):
            cls.quiet = looks_at_all  # type: ignore[assignment] # it is one of a class that is being made
        if "edits" not in cls.__dict__ and cls.edits is None:
            cls.edits = "spans"

    def checked(self) -> None:
        """Check that there is a search, and that the attributes are valid.

        Raises:
            ProcessorError: the class has neither `find` nor `scan`, or `find` has another signature; an attribute
                that is called ``scope``, ``search`` or ``action`` is no such component; or something stands on the
                guard that belongs to a component, such as ``system``.
            OptionError: ``reach``, ``lookback``, ``min_hold``, ``max_hold`` or ``known_bytes`` is no valid number; or
                ``min_hold``, or what ``reach`` makes `hold` keep back (one character less), is more than ``max_hold``.
        """
        super().checked()
        name = type(self).__name__
        refuse_moved(self)
        for attribute, kind in (("scope", TextScope), ("search", Search), ("action", Action)):
            if not isinstance(vars(self).get(attribute, getattr(type(self), attribute)), kind):
                raise ProcessorError(self.id, f"{attribute} must be a {kind.__name__}; give yours another name")
        for option, least in (("reach", 1), ("lookback", 0), ("min_hold", 0), ("max_hold", 1), ("known_bytes", 0)):
            value: Value = getattr(self, option)
            unsaid = option == "reach" and value is None
            if not unsaid and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                unit = "bytes" if option == "known_bytes" else "characters"
                raise OptionError(name, option, value, f"a number of {unit}, at least {least}")
        found_by_find = self.search is NO_SEARCH and type(self).scan is TextGuard.scan
        by_reach = found_by_find and type(self).hold is TextGuard.hold
        for option, needed in (("min_hold", self.min_hold), ("reach", (self.reach or 1) - 1 if by_reach else 0)):
            if needed > self.max_hold:
                raise OptionError(
                    name,
                    option,
                    getattr(self, option),
                    f"smaller: a stream would hold {needed} characters, and max_hold allows {self.max_hold}; "
                    f"lower it, or declare max_hold = {needed} or more",
                )
        if not found_by_find or type(self).judged is not TextGuard.judged:
            return
        if type(self).find is TextGuard.find:
            raise ProcessorError(self.id, "it has no search; write find(self, text, ctx, *, final)")
        try:
            inspect.signature(self.find).bind("", None, final=True)
        except TypeError as error:
            raise ProcessorError(self.id, f"find must accept (text, ctx, *, final): {error}") from None

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; see `penstock.engine.text_guards.fixed` for those of a built-in guard that are refused."""
        refuse_change(self, name)
        super().__setattr__(name, value)
        forget(self)
        if name == "search" and is_async(getattr(value, "scan", None)):
            self.awaits = True

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> Value:
        """Return the findings as edits of ``text``, sorted and disjoint; an empty list for nothing. May be async.

        None counts as nothing only where it is meant: the guard declares ``edits="nothing"`` or is an observer, or
        `find` itself calls ``ctx.abort`` or is annotated to return None. Else it is a failure: a forgotten ``return``.

        In a stream, ``text`` is a window. It begins at least `lookback` characters before the text that is still
        undecided. The result must depend on the text only.

        Args:
            text: the text, or the window over it.
            ctx: the context of the current stage; ``ctx.abort`` stops the run at once.
            final: whether the text ends here. If not, findings beyond the position that `hold` returns do not count
                yet.
        """
        raise NotImplementedError

    def hold(self, text: str, start: int) -> int:
        """Return the position from which text must be held back, at least ``start``. Findings before it are final.

        The default follows from ``reach``.
        """
        return start if self.reach is None else max(start, len(text) - self.reach + 1)

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return the position from which text must be held back, if a glance shows that nothing was found; else None.

        The engine asks before it calls `scan`, and calls it only after None. So a guard that knows what a finding must
        contain need not search text that lacks it. The default returns None.

        Args:
            text: the text, or the window over it: the same as `TextWindow.text`.
            start: the position where the undecided text begins. The position that is returned is not before it.
            notes: the guard's own data about this text; do not change it. Empty if `scan` has left nothing there.
            final: whether the text ends here. The position is then the end of the text.
        """
        return self.search.quiet(text, start, notes, final=final)

    def scan(self, window: TextWindow, ctx: AnyContext) -> Scanned | Awaitable[Scanned]:
        """Return the findings in a window, and the position from which text must be held back.

        The default calls `find` and `hold`. Override it if one search gives both. Findings begin at ``window.start``
        or later and are sorted. Those that end before the position are final. Do not keep a window in which nothing was
        found: the next look at the text may use it again.
        """
        if self.search is not NO_SEARCH:
            return self.search.scan(window, ctx)
        if self.awaits:
            return self._searched(window, ctx)
        ordered = self._ordered(self.find(window.text, ctx, final=window.final))
        if not ordered:
            return (), len(window.text) if window.final else self.hold(window.text, window.start)
        cut = _behind_decided(ordered, window)
        if cut:
            ordered = self._ordered(self.find(window.text[cut:], ctx, final=window.final), cut)
        return self._undecided(ordered, window, cut)

    async def _searched(self, window: TextWindow, ctx: AnyContext) -> Scanned:
        """Do the same, with a `find` that is async."""
        found = self._ordered(await self.find(window.text, ctx, final=window.final))
        cut = _behind_decided(found, window)
        if cut:
            found = self._ordered(await self.find(window.text[cut:], ctx, final=window.final), cut)
        return self._undecided(found, window, cut)

    def _ordered(self, found: object, cut: int = 0) -> list[Found]:
        """Return what `find` found in a window from a position on, in order.

        Raises:
            WrongReturnError: it is no list of findings, or a finding is longer than the guard's reach.
        """
        if found is None and (self.edits == "nothing" or self.role == "observer" or _means_none(type(self).find)):
            return []
        if isinstance(found, (str, bytes)) or is_mapping(found) or not isinstance(found, Iterable):
            problem = "None; did you forget to return the edits? Return [] for nothing, or declare edits='nothing'"
            raise WrongReturnError(f"its find returned {problem if found is None else type(found).__name__}")
        ordered = sorted([moved(item, cut) for item in cast("Iterable[Found]", found)], key=span)
        if self.reach is not None and any(item.end - item.start > self.reach for item in ordered):
            raise WrongReturnError(
                f"it found a span that is longer than its reach of {self.reach} characters; increase reach"
            )
        return ordered

    def _undecided(self, found: list[Found], window: TextWindow, cut: int) -> Scanned:
        """Return the findings in the undecided text, and the position from which text must be held back."""
        known = [item for item in found if item.start >= window.start]
        if window.final:
            return known, len(window.text)
        held = self.hold(window.text[cut:], window.start - cut) + cut
        reached = [item.end for item in known if item.end <= held and item.start < held]
        if reached:
            window.notes[_FOUND_TO] = window.base + reached[-1]
        return known, held

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits for each finding, with positions in its window; by default the findings themselves.

        It is called once for each final finding: report, count and abort here.
        """
        return self.action.act(hits, ctx)

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits applied; None if nothing changes. A subclass may change more.

        Called once in each stage that has messages, after all their texts are judged.
        """
        return self.action.changed(ctx, edits)

    @property
    def reads_joined_on(self) -> bool:
        """Whether a text behind another is read together with it to the end: if somebody reads joined texts alone."""
        return self.search.reads_joined_on or type(self).joined_only is not TextGuard.joined_only

    def joined_only(self, found: Found) -> bool:
        """Return whether such a finding is searched for only in neighbouring text parts as one; by default False.

        It then counts wherever it stands. Other findings in the joined text count if they stand in several parts: those
        in a single part are found where that part is searched separately (`TextWindow.separate`).
        """
        return self.search.joined_only(found)

    def dump_state(self, state: Value) -> None:
        """Store nothing: the state of a guard may hold texts in which other guards have hidden something since."""

    def option(self, name: str) -> object:
        """Return an option as it was given, also one that chooses the texts."""
        return vars(self)[name] if name in vars(self) else getattr(self.scope, name, None)

    def __repr__(self) -> str:
        """Show the class, and the options that differ from their defaults, the id first."""
        given = given_options(self)
        if "id" in option_parameters(self) and "id" in given:
            given = {"id": given.pop("id"), **given}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    # Stages

    def process_input(self, ctx: InputContext) -> Changes:
        """Judge the messages of the caller."""
        return self._guard_messages(ctx, ctx.messages)

    def process_input_step(self, ctx: InputStepContext) -> Changes:
        """Judge the whole conversation before each model call (with ``history=True``)."""
        return self._guard_messages(ctx, ctx.messages)

    def process_output_step(self, ctx: OutputStepContext) -> Changes:
        """Judge the model's answers, tool calls included, before the tools run."""
        return self._guard_messages(ctx, ctx.message_list.response)

    def process_output_result(self, ctx: OutputResultContext) -> Changes:
        """Judge all answers of the model in this run."""
        return self._guard_messages(ctx, ctx.messages)

    def process_tool_call(self, ctx: ToolCallContext) -> Changes:
        """Judge a tool's arguments, keys included."""
        return self._guard_value(ctx, ctx.arguments, "arguments")

    def process_tool_result(self, ctx: ToolResultContext) -> Changes:
        """Judge a tool's result, keys included."""
        return self._guard_value(ctx, ctx.result, "result")

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> None:
        """Raise an error: one chunk alone cannot be judged, so the engine calls `find` and `hold` itself."""
        del chunk, ctx
        raise UsageError(
            f"{self.id}: process_output_stream of a TextGuard cannot be called directly; run the guard in a workflow"
        )

    def _guard_messages(self, ctx: AnyContext, messages: Sequence[Message]) -> Changes:
        scope = self.scope
        asked = messages[-1:] if scope.last_message_only else messages
        unchanged, known = _unchanged(ctx), known_texts(self, ctx)
        unread: list[Unread] = []
        texts: list[Text] = []
        every = (*asked, *scope.system_messages(ctx))
        later = [message for message in every if unchanged.get(message.id) is not message] if unchanged else every
        fresh = later if known is None else known.unknown(later)
        for message in fresh:
            knows = None if known is None else known.knows_value
            own = message_texts(message, scope.kinds, self.search.least_number, knows)
            kept = own if known is None else distinct(own)
            texts += kept
            if known is not None and len(kept) < len(own):
                known.forget_values(message.id)
            if scope.on_unread != "allow" and (bodies := unread_bodies(message, scope.unread_kinds)):
                unread += bodies
                if known is not None:
                    known.forget(message.id)
        scope.unread(ctx, type(self).__name__, unread)

        def finish(edits: Mapping[TextPlace, Edits]) -> Changes:
            touched = {place.message_id for place in edits} if edits else ()
            beside = () if self.action.removes(ctx) else [place for place in edits if place.path == ORIGINAL]
            if beside:
                edits = {place: made for place, made in edits.items() if place.path != ORIGINAL}
            after = self.changed(ctx, edits)
            if edits and after is None:
                raise WrongReturnError("its changed returned None, though there are edits; did you forget to return?")
            if not has_failed(ctx):  # what passed because the guard failed was not judged
                unchanged.update({message.id: message for message in fresh if message.id not in touched})
            return _without_originals(after or ctx.message_list, beside) if beside else after

        return self._judge(ctx, distinct(texts) if known is None and len(texts) > 1 else texts, finish, known)

    def _judge(
        self,
        ctx: AnyContext,
        texts: list[Text],
        finish: Callable[[Mapping[TextPlace, Edits]], Changes],
        known: KnownTexts | None,
    ) -> Changes:
        """Judge texts, and return what ``finish`` makes of the edits; awaitable if the processor is async."""
        done = partial(self._finished, ctx, texts, finish, known)
        if self.awaits:
            return self._judge_async(ctx, texts, done, known)
        if not texts or self._is_quiet(texts):
            return done(PlaceEdits())
        return done(run_without_loop(self._judging(ctx, texts, known), self.id))

    async def _judge_async(
        self,
        ctx: AnyContext,
        texts: list[Text],
        done: Callable[[Mapping[TextPlace, Edits]], Changes],
        known: KnownTexts | None,
    ) -> Changes:
        return done(PlaceEdits() if not texts or self._is_quiet(texts) else await self._judging(ctx, texts, known))

    def _judging(
        self, ctx: AnyContext, texts: list[Text], known: KnownTexts | None
    ) -> Coroutine[object, object, Mapping[TextPlace, Edits]]:
        """Call `judged`; where it is not overridden, with what is known already."""
        is_own = known is not None and type(self).judged is TextGuard.judged
        return self._judged(ctx, texts, known) if is_own else self.judged(ctx, texts)

    def _finished(
        self,
        ctx: AnyContext,
        texts: list[Text],
        finish: Callable[[Mapping[TextPlace, Edits]], Changes],
        known: KnownTexts | None,
        judged: Mapping[TextPlace, Edits],
    ) -> Changes:
        if known is not None:
            known.learn_all(judged, texts)
            known.tell()
        return finish(self._possible(ctx, texts, judged))

    def _possible(
        self, ctx: AnyContext, texts: Collection[Text], edits: Mapping[TextPlace, Edits]
    ) -> Mapping[TextPlace, Edits]:
        """Return the edits without those of fixed texts, which cannot be made: a guard stops the run for them.

        An edit of a number replaces all of it, as ``numbers`` says. All edits stay where their messages are removed.
        """
        check_edits(edits)
        if not edits or self.action.removes(ctx):
            return edits
        edits = self.with_whole_numbers(texts, edits)
        self.check_arguments(ctx, texts, edits)
        fixed = dict.fromkeys(text.place for text in texts if text.fixed and not text.number and edits.get(text.place))
        if fixed and self.role == "guard":
            fields = ", ".join(dict.fromkeys(map(named_field, fixed)))
            ctx.abort(f"it would edit what can only be read: an id, an address or metadata ({fields})")
        return {place: made for place, made in edits.items() if place not in fixed} if fixed else edits

    def check_arguments(self, ctx: AnyContext, texts: Iterable[Text], edits: Mapping[TextPlace, Edits]) -> None:
        """Stop the run rather than change an argument that decides what runs, unless ``arguments`` allows it."""
        if self.arguments != "block" or self.role != "guard" or ctx.stage not in _BEFORE_CALLS:
            return
        changed = [
            text.place
            for text in texts
            if edits.get(text.place) and _is_open_argument(ctx, text.place) and decides_what_runs(text.key, text.text)
        ]
        if changed:
            fields = ", ".join(dict.fromkeys(named_field(in_stage(place)) for place in changed))
            ctx.abort(
                f"it would change what a tool runs ({fields}): a changed command, path or address is another deed, so "
                "the call is stopped; to let it run with the value redacted, write "
                f"{type(self).__name__}(arguments='redact')",
                metadata={"arguments": fields},
            )

    def fitting(self, hits: Sequence[Hit], made: Sequence[Iterable[Edit]]) -> Sequence[Iterable[Edit]]:
        """Return the edits of whole texts so that those that are JSON stay JSON."""
        return [
            fit_json(tuple(edits), hit.window.text, [part.start for part in hit.window.parts[1:]], self.numbers)
            for hit, edits in zip(hits, made, strict=True)
        ]

    def with_whole_numbers(self, texts: Iterable[Text], edits: Mapping[TextPlace, Edits]) -> Mapping[TextPlace, Edits]:
        """Return the edits with all digits of an edited number taken away, unless ``numbers`` keeps the new text."""
        whole = {
            text.place: (replace(made[0], start=0, end=len(text.text), text=""),)
            for text in texts
            if text.number and self.numbers == "null" and (made := tuple(edits.get(text.place, ())))
        }
        return {**edits, **whole} if whole else edits

    def _guard_value(self, ctx: AnyContext, value: Value, field: str) -> Changes:
        scope, known, place = self.scope, known_texts(self, ctx), TextPlace("", 0, (field,))
        texts: list[Text] = []
        if known is None or not known.knows_value(value, place):
            if scope.on_unread != "allow" and "tool" in scope.unread_kinds and holds_unread(value):
                scope.unread(ctx, type(self).__name__, [Unread("", 0, "tool")])
                if known is not None:
                    known.forget("")
            texts = [*view_of_value(value, _texts_reader(field, self.search.least_number))]
        return self._judge(ctx, texts, _value_edits, known)

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits to whole texts, by place. Neighbouring text parts are also searched together.

        If `find` or `scan` is async, the texts are judged concurrently.
        """
        return await self._judged(ctx, texts, known_texts(self, ctx))

    async def _judged(self, ctx: AnyContext, texts: list[Text], known: KnownTexts | None) -> PlaceEdits:
        judged = PlaceEdits()
        runs = self.search.runs(texts, ctx)
        read = partial(self._in_run, ctx, known=known, judged=judged, glances=len(texts) > 1)
        found: list[Sequence[Found]] = []
        if self.awaits:
            found = await gather([partial(read, run) for run in runs])
        else:
            for run in runs:
                found.append(() if known is not None and known.has_read(run) else await read(run))
                checkpoint()
        if known is not None:
            known.tell()
        hits = [Hit(window_of(run), items) for run, items in zip(runs, found, strict=True) if items]
        if not hits:
            return judged
        if self.awaits and self.offloadable and len(hits) + len(texts) > _MANY and not runs_without_loop():
            judged.update(await run_in_worker(partial(self._acted, hits, ctx)))
        else:
            judged.update(self._acted(hits, ctx))
        return judged

    def _acted(self, hits: list[Hit], ctx: AnyContext) -> Mapping[TextPlace, Edits]:
        try:
            return in_places(hits, self.fitting(hits, acted(self.act, hits, ctx)))
        except Exception as error:  # noqa: BLE001 - the policy decides about each text alone
            ctx.let_pass(error)
        single = [self._acted([hit], ctx) for hit in hits] if len(hits) > 1 else ()
        return {place: made for edits in single for place, made in edits.items()}

    @property
    def _in_pieces(self) -> bool:
        """Whether a long whole text is searched piece by piece, as a stream is. If not, it is searched at once."""
        by_find = self.search is NO_SEARCH and type(self).scan is TextGuard.scan
        return not by_find or self.reach is not None or type(self).hold is not TextGuard.hold

    async def _in_run(
        self,
        ctx: AnyContext,
        run: Sequence[Text],
        known: KnownTexts | None = None,
        judged: PlaceEdits | None = None,
        *,
        glances: bool = True,
    ) -> Sequence[Found]:
        """Return the findings in texts that are read as one, in order; a glance at a lone text may have come before."""
        is_quiet = glances and self._is_quiet(run)
        if is_quiet and known is not None:
            known.note_clean(run)
        if is_quiet or known is None or judged is None:
            return () if is_quiet else await self._searched_run(ctx, run)
        key, left = known.left_by(run)
        if left is None:
            notes: Notes = {}
            before = writes(ctx)
            found = await self._searched_run(ctx, run, notes)
            left = None if found or has_failed(ctx) else self.search.left(notes, told=writes(ctx) != before)
            if left is None:
                judged.held.update(text.place for text in run)
                return found
            known.learn(key, left)
        if left:
            judged.left[run[0].place] = left
        else:
            known.note_clean(run)
        return ()

    def _is_quiet(self, texts: Sequence[Text]) -> bool:
        """Return whether there is one text, which is read alone, and a glance shows that nothing is found in it."""
        if len(texts) > 1:
            return False
        text = texts[0]
        if len(text.text) > PIECE or text.key:
            return False
        held = self.quiet(text.text, 0, EMPTY, final=True)
        return held is not None and checked_position(held, 0, len(text.text)) >= 0

    def _is_apart(self, before: Text, text: Text) -> bool:
        """Return whether a text is also searched without the one before it, with which it is read as one."""
        return self.read_parts_separately or (self.search.reads_steps_on and not adjoins(before, text))

    async def _searched_run(self, ctx: AnyContext, run: Sequence[Text], notes: Notes | None = None) -> Sequence[Found]:
        """Return a search's findings in texts that are read as one, in order.

        A text that is read in one piece is one window, and needs no reader. The guard's own notes go into ``notes``.
        """
        first = run[0]
        size = sum(len(text.text) for text in run)
        apart = [self._is_apart(before, text) for before, text in itertools.pairwise(run)]
        if not any(apart) and (size <= PIECE or not self._in_pieces):
            window = window_of(run)
            window.notes = window.notes if notes is None else notes
            result = scan_or_move(self, self.scan, window, ctx)
            scanned = result if isinstance(result, tuple) else await result
            return sorted(checked_scan(scanned, 0, len(window.text))[0], key=span)
        scan = partial(scan_or_move, self, self.scan, ctx=ctx)
        single = len(run) == 1
        reader = TextReader(
            self, scan, first.kind, key=first.key if single else "", fixed=single and first.fixed, place=first.place
        )
        if not any(apart):
            reader.add_parts([(text.place, text.text) for text in run])
        for index, text in enumerate(run if any(apart) else ()):
            if index:
                await reader.begin_part(text.place, apart=apart[index - 1])
            reader.add(text.text)
        found = reader.take(await reader.read(final=True), final=True)
        if notes is not None:
            notes.update(reader.notes)
        return found


@cache
def _means_none(find: Callable[..., object]) -> bool:
    """Return whether None is no forgotten result of a `find`: it is annotated so, or it aborts where it finds."""
    own = inspect.unwrap(find)
    code: CodeType | None = getattr(own, "__code__", None)
    said = str(getattr(own, "__annotations__", EMPTY).get("return", ""))
    return re.search(r"\bNone\b|\bNoneType\b|\bOptional\b", said) is not None or (
        code is not None and "abort" in code.co_names
    )


_SEARCHING = ("find", "hold", "scan", "judged")


_JUDGING = (*_SEARCHING, "quiet", "act", "joined_only", "search", "action", *PHASES["all"])


def _declares(guard: type[TextGuard], name: str, methods: Collection[str]) -> bool:
    """Return whether a class has an attribute from the class that its methods are from, or from one behind that."""
    for base in guard.__mro__:
        own = vars(base).keys()
        if name in own:
            return True
        if not own.isdisjoint(methods):
            return False
    return True


@cache
def _texts_reader(field: str, least: int) -> Callable[[Value], tuple[Text, ...]]:
    """Return the function that returns the texts of a value in a field of a stage."""

    def read(value: Value) -> tuple[Text, ...]:
        return tuple(value_texts(value, (field,), TextPlace("", 0), least=least))

    return read


def _behind_decided(found: Sequence[Found], window: TextWindow) -> int:
    """Return where a search must begin anew, if the window begins within a finding that is decided; else 0."""
    if not any(item.start < window.start < item.end for item in found):
        return 0
    found_to: int = window.notes.get(_FOUND_TO, 0)
    return min(max(found_to - window.base, 0), window.start)


def text_guard_of(processor: AnyProcessor) -> TextGuard | None:
    """Return the processor if it is a `TextGuard` without a `process_output_stream` of its own; else None."""
    if isinstance(processor, TextGuard) and type(processor).process_output_stream is TextGuard.process_output_stream:
        return processor
    return None


_BEFORE_CALLS = ("process_output_stream", "process_output_step", "process_tool_call")
"""The stages whose edits change the arguments with which a tool is called."""


def _is_open_argument(ctx: AnyContext, place: TextPlace) -> bool:
    """Return whether a text is an argument of a call that is still to be made."""
    if in_stage(place).path[:1] != ("arguments",):
        return False
    message = ctx.message_list.get(place.message_id) if place.message_id else None
    if message is None:
        return True
    part = message.parts[place.part]
    return isinstance(part, ToolPart) and part.state in ("call", "partial")


def _without_originals(messages: MessageList, places: Iterable[TextPlace]) -> MessageList:
    """Return the conversation without the originals of translations at some places."""
    _, field, key = ORIGINAL
    changed: list[Message] = []
    for message_id in dict.fromkeys(place.message_id for place in places):
        message = messages.get(message_id)
        if message is not None:
            details: Mapping[str, Value] = message.metadata[field]
            kept = {name: detail for name, detail in details.items() if name != key}
            changed.append(message.with_metadata(**{field: kept}))
    return messages.replace(*changed)


def _value_edits(edits: Mapping[TextPlace, Edits]) -> Changes:
    return TextEdits({place.path: made for place, made in edits.items()}) if edits else None


_UNCHANGED = "penstock.settled"


def _unchanged(ctx: AnyContext) -> dict[str, Message]:
    """Return the messages that were judged and need no edit, by id; none if the state is not a mapping."""
    state: Value = ctx.state
    if not is_mapping(state):
        return {}
    found: dict[str, Message] = state.setdefault(_UNCHANGED, {})
    return found
