"""What random processors do at each stage: they pass, edit, abort, ask for another attempt, break; no agent."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import Answer, Chunk, Message, Retry
from penstock.engine import Overrides

if TYPE_CHECKING:
    from tests.workflows.agent.fuzz.world import World

Act: TypeAlias = Callable[["World", random.Random, Any, Any], Any]
MARK = re.compile(r"<[trco][0-9.]+>")


def marks(what: object) -> set[str]:
    """Return the marks in whatever it is."""
    return set(MARK.findall(repr(what)))


def act(world: World, stage: str, dice: random.Random, ctx: Any, chunk: Chunk | None, *, wary: bool) -> Any:
    """Do something at a stage, and return what the hook returns."""
    kept = chunk if stage == "process_output_stream" else None
    if not wary or dice.random() < (0.9 if kept is not None else 0.7):
        return kept
    return dice.choice(ACTS[stage])(world, dice, ctx, kept)


def _abort(world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> None:
    world.stopped = True
    ctx.abort("stop")


def _retry(_world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> None:
    ctx.abort("again", retry=True)


def _raise(_world: World, _dice: random.Random, _ctx: Any, _chunk: Any) -> None:
    raise ValueError("broke")


def _write(_world: World, dice: random.Random, ctx: Any, chunk: Any) -> Any:
    ctx.writer.write(Chunk("data-x", payload={"data": 1}, transient=dice.random() < 0.5))
    return chunk


def _shout(_world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    """Edit the messages that are shown, but for answers."""
    return [
        message.with_parts(Message.user(f"{message.text}!").parts) if message.role == "user" else message
        for message in ctx.messages
    ]


def _say(_world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    return ctx.message_list.add([Message.system("also")])


def _settings(_world: World, _dice: random.Random, _ctx: Any, _chunk: Any) -> Any:
    return Overrides(model_settings={"temperature": 0})


def _answer(world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    if ctx.answer is not None:
        return None
    turn = world.take()
    id = f"t{turn}"
    ends = Chunk("text-end", id=id), Chunk("finish", payload={"reason": "stop"})
    return Answer((Chunk("text-start", id=id), Chunk("text-delta", f"<t{turn}.0>", id), *ends))


def _again(_world: World, dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    if dice.random() < 0.3:
        return Retry(messages=ctx.message_list.add([Message.user("go on")]))
    return Retry()


def _drop(world: World, _dice: random.Random, _ctx: Any, chunk: Any) -> None:
    if chunk.type in ("text-delta", "reasoning-delta"):
        world.gone |= dict.fromkeys(marks(chunk), "process_output_stream")
    else:
        world.dropped |= marks(chunk)


def _edit_chunk(world: World, _dice: random.Random, _ctx: Any, chunk: Any) -> Any:
    if chunk.type not in ("text-delta", "reasoning-delta"):
        return chunk
    world.gone |= dict.fromkeys(marks(chunk), "process_output_stream")
    return chunk.with_text("[x]")


def _double(_world: World, _dice: random.Random, _ctx: Any, chunk: Any) -> Any:
    return [chunk, Chunk("data-y", payload={"data": 2})]


def _edit_answers(world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    """Take marks out of the texts of the last answer."""
    last = next((message for message in reversed(ctx.messages) if message.role == "assistant"), None)
    found = MARK.findall(last.text) if last is not None else []
    if last is None or not found:
        return None
    world.gone[found[0]] = ctx.stage
    return ctx.message_list.map_text(lambda text: text.replace(found[0], "[x]"), [last])


def _remove(world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    last = next((message for message in reversed(ctx.messages) if message.role == "assistant"), None)
    if last is None:
        return None
    world.gone |= dict.fromkeys(marks(last), ctx.stage)
    return ctx.message_list.remove(last.id)


def _edit_call(world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    world.gone |= dict.fromkeys(marks(ctx.arguments), ctx.stage)
    return {"word": "[x]"}


def _stand_in(_world: World, _dice: random.Random, _ctx: Any, _chunk: Any) -> Any:
    return Answer("stand-in")


def _edit_result(world: World, _dice: random.Random, ctx: Any, _chunk: Any) -> Any:
    said = [mark for mark in marks(ctx.result) if mark.startswith("<o")]  # an error may tell of the arguments
    world.gone |= dict.fromkeys(said, ctx.stage)
    return "[x]"


ACTS: Mapping[str, list[Act]] = {
    "process_input": [_abort, _raise, _write, _shout, _say],
    "process_input_step": [_abort, _raise, _write, _settings, _settings, _say, _shout],
    "process_llm_request": [_abort, _raise, _write, _answer, _answer, _shout],
    "process_api_error": [_abort, _retry, _raise, _write, _again, _again, _again, _again],
    "process_output_stream": [_abort, _retry, _raise, _write, _drop, _edit_chunk, _edit_chunk, _double],
    "process_llm_response": [_abort, _raise, _write],
    "process_output_step": [_abort, _retry, _retry, _raise, _write, _edit_answers, _remove],
    "process_tool_call": [_abort, _retry, _raise, _write, _edit_call, _stand_in],
    "process_tool_result": [_abort, _raise, _write, _edit_result],
    "process_output_result": [_abort, _raise, _write, _edit_answers, _remove],
}
