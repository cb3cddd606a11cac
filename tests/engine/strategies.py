"""Hypothesis strategies for random workflows of scripted steps; they know how to build graphs, not what is right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import anyio.lowlevel
from hypothesis import strategies as st

from penstock import Chunk, Edit, Key, Message, Processor, TextPart, ToolPart, Workflow, member
from penstock.engine import Conflict, pick
from penstock.engine.processor.payload import Overrides
from penstock.engine.values.message_list import MessageList

WORDS = ("alpha", "SECRET", "beta", "token", "x")
KEYS = tuple(Key[int](name) for name in ("language", "score"))
STAGE = "process_input_step"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Op:
    """One thing that a scripted step does."""

    kind: str
    at: int = 0
    width: int = 0
    text: str = ""
    flag: bool = False


class _Scripted(Processor):
    """Does what its ops say, in order; the last list it made is what it returns."""

    def __init__(self, ops: tuple[Op, ...], pauses: int, **claims: Any) -> None:
        self.ops = ops
        self.pauses = pauses
        for name, value in claims.items():
            setattr(self, name, value)

    def act(self, ctx: Any) -> Any:
        """Do it all; every op works on what the one before left."""
        messages = ctx.message_list
        overrides = None
        for op in self.ops:
            if op.kind in OVERRIDES:
                overrides = {**(overrides or {}), **OVERRIDES[op.kind](op, overrides or {})}
            else:
                messages = _ACTS[op.kind](op, ctx, messages)
        if messages is ctx.message_list or not any(op.kind in LISTS for op in self.ops):
            return None if overrides is None else Overrides(**overrides)
        return messages if overrides is None else Overrides(**overrides, messages=messages)


class SyncScripted(_Scripted):
    """A scripted step that cannot suspend."""

    def process_input_step(self, ctx: Any) -> Any:
        """Do it."""
        return self.act(ctx)


class AsyncScripted(_Scripted):
    """A scripted step that lets others run a few times before it acts."""

    async def process_input_step(self, ctx: Any) -> Any:
        """Wait a few turns, and do it."""
        for _ in range(self.pauses):
            await anyio.lowlevel.checkpoint()
        return self.act(ctx)


class Elsewhere(Processor):
    """A step that has nothing to do in the stage that is run."""

    edits = "nothing"

    def process_output_result(self, ctx: Any) -> None:
        """Do nothing."""


SHAPES = ("metadata", "role", "reorder", "drop-part", "new-part", "weave")
"""What only a step that may edit anything does (but metadata)."""
LISTS = frozenset({"redact", "redact-word", "replace", "insert", "map", "append", "remove", "unchanged", *SHAPES})


def _texts(op: Op, messages: MessageList) -> list[tuple[Any, str]]:
    """The texts of a list; a mapping's keys only for an op that is flagged."""
    return [found for found in messages.texts() if op.flag or isinstance(found[0].path[-1], (str, int))]


def _place(op: Op, messages: MessageList) -> tuple[Any, str] | None:
    found = _texts(op, messages)
    return found[op.at % len(found)] if found else None


def _edit(op: Op, _ctx: Any, messages: MessageList) -> MessageList:
    placed = _place(op, messages)
    if placed is None:
        return messages
    where, text = placed
    start = op.at % (len(text) + 1)
    end = start if op.kind == "insert" else min(len(text), start + op.width)
    return messages.edit_text({where: [Edit(start, end, op.text, op.kind)]})  # type: ignore[arg-type]


def _redact_word(op: Op, _ctx: Any, messages: MessageList) -> MessageList:
    word = WORDS[op.at % len(WORDS)]
    found: dict[Any, list[Edit]] = {}
    for where, text in _texts(op, messages):
        start = text.find(word)
        while start >= 0:
            found.setdefault(where, []).append(Edit(start, start + len(word), op.text, "redact"))
            start = text.find(word, start + len(word))
    return messages.edit_text(found)


def _map(op: Op, _ctx: Any, messages: MessageList) -> MessageList:
    return messages.map_text(lambda text: text.replace(WORDS[op.at % len(WORDS)], op.text))


def _append(op: Op, ctx: Any, messages: MessageList) -> MessageList:
    return messages.add(Message.user(op.text, id=f"{ctx.step_path}-{op.at}", created_at=NOON), source="context")


def _remove(op: Op, _ctx: Any, messages: MessageList) -> MessageList:
    ids = [message.id for message in messages]
    return messages.remove(ids[op.at % len(ids)]) if len(ids) > 1 else messages.remove()


def _put(op: Op, ctx: Any, messages: MessageList) -> MessageList:
    ctx.put(KEYS[op.at % len(KEYS)], op.width)
    return messages


def _write(op: Op, ctx: Any, messages: MessageList) -> MessageList:
    ctx.writer.write(Chunk("data-told", payload={"by": ctx.step_path, "at": op.at}))
    return messages


def _abort(op: Op, ctx: Any, messages: MessageList) -> MessageList:
    if not op.flag:
        ctx.abort(f"{ctx.step_path} says {op.at}")
    try:
        ctx.abort(f"{ctx.step_path} says {op.at}")
    except BaseException:  # noqa: BLE001 - a hook that swallows its own verdict
        return messages


def _raise(op: Op, _ctx: Any, _messages: MessageList) -> MessageList:
    raise (ValueError, KeyError, _Base)[op.at % 3](op.text)


def _flaky(op: Op, ctx: Any, messages: MessageList) -> MessageList:
    """Fail the first few times in a request."""
    ctx.state["tried"] = tried = ctx.state.get("tried", 0) + 1
    if tried <= op.at % 4:
        raise ValueError(tried)
    return messages


class _Base(BaseException):
    """Caught by no `except Exception`."""


def _changed(change: Any) -> Any:
    """An op that makes something else of one message."""

    def act(op: Op, _ctx: Any, messages: MessageList) -> MessageList:
        chosen = [*messages][op.at % len(messages) :][:1] if len(messages) else []
        return messages.replace(*(replace(one, **change(op, one)) for one in chosen))

    return act


def _with_metadata(op: Op, message: Message) -> dict[str, Any]:
    made = {**message.metadata, f"k{op.at % 2}": op.width % 3}
    return {"metadata": {key: value for key, value in made.items() if not (op.flag and key == "k0")}}


def _with_other_parts(op: Op, message: Message) -> dict[str, Any]:
    at = op.at % (len(message.parts) + 1)
    more = () if op.kind == "drop-part" else (TextPart(op.text),)
    return {"parts": (*message.parts[:at], *more, *message.parts[at + (op.kind == "drop-part") :])}


def _weave(op: Op, ctx: Any, messages: MessageList) -> MessageList:
    entries = list(messages.entries)
    added = MessageList([Message.user(op.text, id=f"{ctx.step_path}-{op.at}", created_at=NOON)]).entries
    if added[0].message.id in messages:
        return messages
    at = op.at % (len(entries) + 1)
    return _laid_out(messages, [*entries[:at], *added, *entries[at:]])


def _reorder(op: Op, _ctx: Any, messages: MessageList) -> MessageList:
    entries = list(messages.entries)
    at = op.at % (len(entries) + 1)
    return _laid_out(messages, [*entries[at:], *entries[:at]])


def _laid_out(messages: MessageList, entries: list[Any]) -> MessageList:
    """The list with other entries, as a step makes one of its own."""
    made = messages.clear()
    for entry in entries:
        made = made.add(entry.message, source=entry.source, tag=entry.tag)
    return made


def _unchanged(_op: Op, _ctx: Any, messages: MessageList) -> MessageList:
    return messages.edit_text({})


_ACTS: dict[str, Any] = {
    "redact": _edit,
    "replace": _edit,
    "insert": _edit,
    "redact-word": _redact_word,
    "map": _map,
    "append": _append,
    "remove": _remove,
    "put": _put,
    "write": _write,
    "abort": _abort,
    "raise": _raise,
    "flaky": _flaky,
    "unchanged": _unchanged,
    "metadata": _changed(_with_metadata),
    "role": _changed(
        lambda op, message: {"role": ("user", "assistant")[op.at % 2]} if message.role != "system" else {}
    ),
    "reorder": _reorder,
    "drop-part": _changed(_with_other_parts),
    "new-part": _changed(_with_other_parts),
    "weave": _weave,
}
OVERRIDES: dict[str, Any] = {
    "settings": lambda op, made: {"model_settings": {**made.get("model_settings", {}), op.text: op.at}},
    "model": lambda op, _made: {"model": f"m{op.at % 2}"},
    "tools": lambda op, _made: {"active_tools": [name for n, name in enumerate("abc") if op.at >> n & 1]},
}

positions = st.integers(0, 60)
texts = st.sampled_from(("", "[X]", "[REDACTED]", "long replacement text", "SECRET", "é😀"))


def ops(*, stops: bool = True, shapes: bool = False) -> st.SearchStrategy[Op]:
    """Anything that a step may do; ``stops``: also abort and raise (now and then); ``shapes``: edit anything."""
    kinds = ["redact", "redact-word", "replace", "insert", "map", "append", "remove", "put", "write", "settings"]
    kinds += [*SHAPES, "model", "tools"] if shapes else ["metadata"]
    made = st.builds(Op, st.sampled_from([*kinds, "unchanged"]), positions, st.integers(0, 12), texts, st.booleans())
    made = made.map(lambda op: Op(op.kind, op.at, op.width, f"k{op.at % 3}") if op.kind == "settings" else op)
    if not stops:
        return made
    rare = st.builds(Op, st.sampled_from(["abort", "raise", "flaky"]), positions, st.just(0), texts, st.booleans())
    return st.integers(0, 5).flatmap(lambda dice: rare if dice == 5 else made)


@st.composite
def processors(draw: Any, *, stops: bool = True, suspends: bool = True) -> Processor[Any]:
    """A scripted step, sync or async, under any claim that its ops allow."""
    if draw(st.integers(0, 9)) == 9:
        return Elsewhere()
    kind = AsyncScripted if suspends and draw(st.booleans()) else SyncScripted
    edits = draw(st.sampled_from(["spans", "anything", "anything", "nothing"]))
    script = tuple(draw(st.lists(ops(stops=stops, shapes=edits == "anything"), max_size=3)))
    if len(script) > 1:  # a step that edits a key and then something else tells places that were not there before
        script = tuple(replace(op, flag=False) if op.kind in LISTS else op for op in script)
    claims: dict[str, Any] = {
        "edits": edits,
        "role": draw(st.sampled_from(["guard", "transform"])),
        "on_error": draw(st.sampled_from(["block", "raise", "allow"])),
        "provides": KEYS,
    }
    if claims["edits"] == "nothing":  # what it edits all the same is to be a change, so that it is an error
        script = tuple(replace(op, text="a change") if op.kind in LISTS else op for op in script)
    return kind(script, draw(st.integers(0, 3)), **claims)


def _long(ctx: Any) -> bool:
    return len(ctx.text) > 40


def _secret(ctx: Any) -> bool:
    return "SECRET" in ctx.text


async def _scored(ctx: Any) -> bool:
    await anyio.lowlevel.checkpoint()
    return (ctx.get(KEYS[1]) or 0) > 3


def _never(_ctx: Any) -> bool:
    return False


def _broken(ctx: Any) -> bool:
    raise RuntimeError(ctx.text)


def conditions(*, stops: bool = True, suspends: bool = True) -> st.SearchStrategy[Any]:
    """Conditions on text and facts, and (now and then) one that breaks."""
    found = [_long, _secret, lambda ctx: ctx.get(KEYS[0]) is not None, _never]
    return st.sampled_from([*found, *([_scored] if suspends else []), *([_broken] if stops else [])])


def settle(conflict: Conflict) -> Any:
    """A function that settles conflicts: all that is said of a text, else what the last branch says."""
    values = list(conflict.values.values())
    return "|".join(values) if all(isinstance(value, str) for value in values) else values[-1]


merges = st.sampled_from([None, None, "first", "last", "sequence", pick("sync-scripted"), pick("w"), settle])
joins = st.sampled_from([None, None, "first", "last", pick("sync-scripted#2"), pick("n1"), settle])


@st.composite
def workflows(draw: Any, *, stops: bool = True, suspends: bool = True, depth: int = 2) -> Workflow:
    """A workflow of one to three nodes: steps, parallels, branches, dags, and workflows in workflows."""
    made = Workflow(draw(st.sampled_from(["w", "v"])))
    for _ in range(draw(st.integers(0 if depth < 2 else 1, 3))):
        kind = draw(st.sampled_from(["then", "then", "parallel", "branch", "dag"] if depth else ["then"]))
        made = _GROWN[kind](draw, made, {"stops": stops, "suspends": suspends}, depth)
    return made


def _item(draw: Any, how: dict[str, Any], depth: int) -> Any:
    if depth and draw(st.integers(0, 3)) == 3:
        return draw(workflows(**how, depth=depth - 1))
    return draw(processors(**how))


def _then(draw: Any, made: Workflow, how: dict[str, Any], depth: int) -> Workflow:
    policy: dict[str, Any] = {}
    if how["stops"]:
        policy["on_error"] = draw(st.sampled_from([None, None, "block", "allow", "raise", _fallback()]))
        policy["retries"] = draw(st.sampled_from([0, 0, 0, 1, 2]))
    policy["mode"] = draw(st.sampled_from(["enforce"] * 9 + (["shadow"] if not how["suspends"] else ["enforce"])))
    if policy.get("retries") and draw(st.booleans()):  # steps in sequence: what a failed attempt ran, is certain
        return made.then(draw(workflows(**how, depth=0)), **policy)
    return made.then(draw(processors(**how)) if policy.get("retries") else _item(draw, how, depth), **policy)


def _fallback() -> Processor[Any]:
    return SyncScripted((Op("redact-word", 1, 0, "[F]"),), 0, edits="spans", id="stand-in")


def _parallel(draw: Any, made: Workflow, how: dict[str, Any], depth: int) -> Workflow:
    items = [_item(draw, how, depth - 1) for _ in range(draw(st.integers(1, 3)))]
    return made.parallel(*items, merge=draw(merges))


def _branch(draw: Any, made: Workflow, how: dict[str, Any], depth: int) -> Workflow:
    arms = [(draw(conditions(**how)), _item(draw, how, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    return made.branch(
        *arms,
        otherwise=_item(draw, how, depth - 1) if draw(st.booleans()) else None,
        match=draw(st.sampled_from(["first", "all"])),
        merge=draw(joins),
        on_error=draw(st.sampled_from(["block", "raise"])),
    )


def _dag(draw: Any, made: Workflow, how: dict[str, Any], depth: int) -> Workflow:
    members: list[Any] = []
    for number in range(draw(st.integers(1, 4))):
        sources = draw(st.sets(st.sampled_from(range(number)), max_size=2)) if number else set()
        after = {f"n{source}": draw(st.none() | conditions(**how)) for source in sorted(sources)}
        members.append(member(_item(draw, how, depth - 1), id=f"n{number}", after=after))
    return made.dag(*members, merge=draw(joins))


_GROWN = {"then": _then, "parallel": _parallel, "branch": _branch, "dag": _dag}


@st.composite
def conversations(draw: Any) -> tuple[Message, ...]:
    """One to three messages with text, tool results and several parts."""
    sentence = st.lists(st.sampled_from([*WORDS, "é😀", "\n", ""]), max_size=8).map(" ".join)
    messages = []
    for number in range(draw(st.integers(1, 3))):
        role = draw(st.sampled_from(["user", "assistant", "system"]))
        parts: list[Any] = [TextPart(draw(sentence))]
        if draw(st.booleans()):
            result = {"answer": draw(sentence), "list": [draw(sentence), 1, None]}
            parts.append(ToolPart(f"c{number}", "search", {"q": draw(sentence)}, "result", result))
        if draw(st.booleans()):
            parts.insert(0, TextPart(draw(sentence)))
        messages.append(Message(role, parts, id=f"m{number}", created_at=NOON))
    return tuple(messages)


__all__ = ["AsyncScripted", "Elsewhere", "Op", "SyncScripted", "conversations", "pick", "workflows"]
