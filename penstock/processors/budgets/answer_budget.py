"""Keep an answer, streamed or whole, within a number of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.engine.values.chunks import CONTENT, Chunk
from penstock.engine.values.edits import Edit
from penstock.engine.values.messages import TextPart
from penstock.engine.values.texts import TextPlace
from penstock.models.tokens.message_costs import compact
from penstock.models.tokens.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.engine.processor.context import Context, OutputStreamContext
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.models.tokens.counters import Counting
    from penstock.models.tokens.meter import CutAt, CutPlace


NOTICE = "data-token-limit-reached"
"""The type of the transient chunk that reports, once per run, a cut: ``processor_id``, ``limit``, ``tokens``."""

_WAITING = CONTENT - {
    "text-start",
    "text-delta",
    "text-end",
}  # text chunks are left out: the engine flushes text blocks


@dataclass(slots=True, eq=False)
class AnswerUsage:
    """The state of a token limiter: how much of its budget an answer has used, and the parts dropped from prompts.

    Lives as long as the request.
    """

    attempt: int = 0
    before: int = 0  # tokens of accepted model steps
    spent: int = 0  # tokens of this step's blocks that have ended
    object: int = 0  # tokens of the last snapshot of a structured answer
    over: bool = False
    over_before: bool = False
    notified: bool = False
    meter: Meter | None = None
    block: str = ""
    last: Chunk = field(default_factory=lambda: Chunk("text-delta"))
    dropped: set[str] = field(default_factory=set[str])  # ids of the messages that callbacks were given
    summary: str | None = None  # of these messages

    def enter(self, attempt: int, retry_count: int) -> None:
        """Begin another model step; the answer of a rejected step does not count."""
        if attempt == self.attempt:
            return
        if retry_count == 0:
            self.before += self.spent
            self.over_before = self.over
        self.attempt, self.spent, self.over, self.meter, self.object = attempt, 0, self.over_before, None, 0


class AnswerBudget:
    """The token limit of an answer's text, and what to do when it is exceeded."""

    def __init__(
        self, limit: int, counting: Counting, at: CutAt, ellipsis: str, *, each: bool, stop: bool, ends: bool
    ) -> None:
        """Store the options: ``each`` limits each piece by itself; ``stop`` aborts runs; ``ends`` closes streams."""
        self.limit = limit
        self.counting = counting
        self.at: CutPlace = "nowhere" if stop else at
        self.ellipsis = ellipsis
        self.each = each
        self.stop = stop
        self.ends = ends

    # Streams

    def chunk(self, chunk: Chunk, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | list[Chunk] | None:
        """Return the part of a chunk that fits into the budget."""
        if chunk.type == "text-delta":
            return self._delta(chunk, ctx)
        if chunk.type in ("object", "object-result"):
            return self._object(chunk, ctx)
        if chunk.type in _WAITING and (meter := ctx.state.meter) is not None and meter.holds:
            held = self.flush(ctx)
            return chunk if held is None else [held, chunk]
        return chunk

    def flush(self, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | None:
        """Return the held-back text of the block that ends, as far as it fits."""
        used = ctx.state
        meter, used.meter = used.meter, None
        done = meter is None or meter.over
        if meter is None or done:
            return None
        out = meter.feed("", final=True)
        used.spent += meter.tokens
        if meter.over:
            self._exceeded(ctx, used.before + used.spent)
        return used.last.with_text(out) if out else None

    def _delta(self, chunk: Chunk, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | list[Chunk] | None:
        used = ctx.state
        used.enter(ctx.step_number, ctx.retry_count)
        if self.each:
            return self._alone(chunk, ctx)
        if used.over:
            return None
        held = self.flush(ctx) if used.meter is not None and used.block != chunk.id else None
        if used.meter is None and not used.over:
            used.meter = Meter(self.counting, max(0, self.limit - used.before - used.spent), self.at, self.ellipsis)
        used.block, used.last = chunk.id, chunk
        out = self._fed(chunk, ctx)
        return out if held is None else [held, *([out] if out is not None else [])]

    def _fed(self, chunk: Chunk, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | None:
        used = ctx.state
        if used.meter is None:
            return None
        out = used.meter.feed(chunk.text)
        if used.meter.over:
            used.spent += used.meter.tokens
            self._exceeded(ctx, used.before + used.spent)
        return chunk if out == chunk.text else chunk.with_text(out) if out else None

    def _alone(self, chunk: Chunk, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | None:
        out = self.fitted(chunk.text, self.limit)
        if out is None:
            return chunk
        self._exceeded(ctx, self.counting.fresh(chunk.text), whole=False)
        return chunk.with_text(out) if out else None

    def _object(self, chunk: Chunk, ctx: OutputStreamContext[AnswerUsage]) -> Chunk | None:
        """Pass a structured answer whole or not at all; each snapshot replaces the one before."""
        used = ctx.state
        used.enter(ctx.step_number, ctx.retry_count)
        used.object = self.counting.fresh(compact(chunk.payload.get("object", chunk.payload)))
        tokens = used.object if self.each else used.before + used.spent + used.object
        if tokens <= self.limit:
            return chunk
        self._exceeded(ctx, tokens, whole=False)
        return None

    def _exceeded(self, ctx: OutputStreamContext[AnswerUsage], tokens: int, *, whole: bool = True) -> None:
        used = ctx.state
        used.over = used.over or whole
        if self.stop:
            self._abort(ctx, tokens)
        if self.ends and whole:
            ctx.end_source("length")
        ctx.note(limit=self.limit, tokens=tokens, counter=self.counting.name)
        if not used.notified:
            used.notified = True
            notice = {"processor_id": ctx.step_path.rsplit("/", 1)[-1], "limit": self.limit, "tokens": tokens}
            ctx.writer.write(Chunk(NOTICE, payload=notice, transient=True))

    def _abort(self, ctx: Context[Any], tokens: int) -> NoReturn:
        metadata = {"limit": self.limit, "tokens": tokens, "counter": self.counting.name}
        ctx.abort(f"the answer exceeds its limit of {self.limit} tokens: {tokens} so far", metadata=metadata)

    # Whole answers

    def result(self, ctx: Context[AnswerUsage]) -> MessageList | None:
        """Return the conversation with the answer's text cut to the limit; None if it fits."""
        cuts = {place: (text, out) for place, text, out in self._cuts(ctx.messages) if out != text}
        if not cuts:
            return None
        tokens = self._so_far(ctx.messages, next(iter(cuts)))
        if self.stop:
            self._abort(ctx, tokens)
        ctx.note(limit=self.limit, tokens=tokens, counter=self.counting.name)
        return _without(ctx.message_list, cuts, self.ellipsis)

    def _so_far(self, messages: Iterable[Message], stop: TextPlace) -> int:
        """Return the tokens up to and including the first text that exceeds the limit."""
        counts: list[int] = []
        for place, text in _texts(messages):
            counts.append(self.counting.fresh(text))
            if place == stop:
                break
        return counts[-1] if self.each else sum(counts)

    def _cuts(self, messages: Iterable[Message]) -> Iterator[tuple[TextPlace, str, str]]:
        left, over = self.limit, False
        for place, text in _texts(messages):
            out = "" if over else self.fitted(text, left)
            if not self.each:
                over = over or out is not None
                left -= self.counting.fresh(text) if out is None else 0
            yield place, text, text if out is None else out

    def fitted(self, text: str, budget: int) -> str | None:
        """Return the text cut to a number of tokens; None if it fits or was cut before."""
        meter = Meter(self.counting, max(0, budget), self.at, self.ellipsis)
        out = meter.feed(text, final=True)
        return None if not meter.over or self._was_cut(text, budget) else out

    def _was_cut(self, text: str, budget: int) -> bool:
        if not self.ellipsis or not text.endswith(self.ellipsis):
            return False
        body = self.counting.fresh(text.removesuffix(self.ellipsis))
        return body + self.counting.count(self.ellipsis) <= budget

    def __eq__(self, other: object) -> bool:
        """Tell whether both have equal options."""
        return isinstance(other, AnswerBudget) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _texts(messages: Iterable[Message]) -> Iterator[tuple[TextPlace, str]]:
    """Yield the text parts of the assistant's messages, with their places."""
    for message in messages:
        if message.role == "assistant":
            for index, part in enumerate(message.parts):
                if type(part) is TextPart and part.text:
                    yield TextPlace(message.id, index, ("text",)), part.text


def _without(messages: MessageList, cuts: dict[TextPlace, tuple[str, str]], ellipsis: str) -> MessageList:
    """Return the list with the texts cut, without parts that became empty and messages without parts."""
    edits = {
        place: [Edit(len(out) - len(ellipsis), len(text), ellipsis, "replace")]
        for place, (text, out) in cuts.items()
        if out
    }
    edited = messages.edit_text(edits) if edits else messages
    emptied: dict[str, set[int]] = {}
    for place, (_, out) in cuts.items():
        if not out:
            emptied.setdefault(place.message_id, set()).add(place.part)
    left = {
        message.id: message.with_parts(part for at, part in enumerate(message.parts) if at not in emptied[message.id])
        for message in edited
        if message.id in emptied
    }
    gone = [message_id for message_id, message in left.items() if not message.parts]
    changed = [message for message in left.values() if message.parts]
    if changed:
        edited = edited.replace(*changed)
    return edited.remove(*gone) if gone else edited
