"""Scenarios M: what becomes of returned lists, of system messages, and of a rejected answer in the history."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock import Message, TextPart
from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Talk, chain, conversation
from tests.conformance.runtime.frame import SAME, Better, scenario
from tests.conformance.runtime.lifecycle import kind_of

KEEPS_ORDER = Better(rules.order_given_is_order_kept)
ONE_ID = Better(rules.one_id_is_one_message)


def _text(message: Message, text: str) -> Message:
    return message.with_parts([TextPart(text)])


def _returns(case: str, ms: tuple[Message, ...]) -> Any:
    """Return what the hook of a case returns."""
    first, second, third = ms
    assert first.created_at is not None
    new = Message.user("new", created_at=first.created_at)
    future = replace(new, created_at=first.created_at + timedelta(seconds=60))
    cases: dict[str, Any] = {
        "edit_first": [_text(first, "first!"), second, third],
        "edit_last": [first, second, _text(third, "third!")],
        "reverse": [third, second, first],
        "reverse_new_objects": [_text(m, m.text) for m in (third, second, first)],
        "insert_front_future": [future, *ms],
        "insert_front_old": [replace(new, created_at=datetime(1970, 1, 1, tzinfo=UTC)), *ms],
        "append_past": [*ms, new],
        "append_assistant_past": [*ms, Message.assistant("asst", created_at=first.created_at)],
        "no_createdAt": [*ms, Message.user("new")],
        "dup_id": [*ms, _text(first, "dup")],
        "delete_mid": [first, third],
        "plain_core": [*ms, {"role": "user", "content": "plain"}],
    }
    return cases[case]


@scenario(
    "M01",
    {
        **{
            f"{case}/*/prompt": KEEPS_ORDER
            for case in (
                "reverse",
                "reverse_new_objects",
                "insert_front_future",
                "append_past",
                "append_assistant_past",
            )
        },
        "dup_id/*/prompt": ONE_ID,
        "plain_core/*/prompt": ONE_ID,
        "*/*/prompt": SAME,
    },
)
async def a_returned_list(world: Any, given: Any) -> Any:
    """Which messages there are after a hook returned a list, and in which order."""
    stages = {"processInput": "process_input", "processInputStep": "process_input_step"}
    return {
        case: {name: {"prompt": await _sent(world, case, stage, given["input"])} for name, stage in stages.items()}
        for case in given["cases"]
    }


async def _sent(world: Any, case: str, stage: str, texts: list[str]) -> Any:
    a = Hooks("A", **{stage: lambda ctx: _returns(case, ctx.messages)})
    talk = await Talk(world.start(chain(a))).play(conversation(*texts))
    if talk.error is not None:
        return kind_of(talk.error)
    return [f"{entry['role']}:{entry['text']}" for entry in talk.prompt[1:]]


@scenario(
    "M03",
    {"*": Better(rules.system_messages_of_a_call_have_no_owner)},
    overrules="DESIGN §9: a hook that trims system prompts sees all that no processor owns, those of a call too",
)
async def system_messages_are_not_doubled(world: Any, given: Any) -> Any:
    """Equal texts of one owner are one; replacing those without an owner leaves the others."""
    del given

    def ops(ctx: Any) -> Any:
        own = ctx.message_list.tagged(None)
        messages = ctx.message_list
        for text, tag in (("X", None), ("X", None), ("T", "tag1"), ("T", "tag1"), ("T", "tag2"), ("Y", None)):
            messages = messages.add(Message.system(text), tag=tag)
        return messages.replace_system([*own, Message.system("R")])

    run = world.start(chain(Hooks("A", process_input=ops)))
    talk = await Talk(run).play(conversation("Hi", tagged={"user-provided": "user system"}))
    return {"system_in_prompt": [entry["text"] for entry in talk.prompt if entry["role"] == "system"]}


@scenario(
    "M04",
    {
        "add_assistant/messages": Better(rules.added_messages_stand_by_themselves),
        "*/messages": SAME,
        "replace_id/text": SAME,
        "*/text": Better(rules.text_is_what_the_model_said),
    },
)
async def lists_of_the_result(world: Any, given: Any) -> Any:
    """Messages that the last stage adds or replaces."""
    hooks: dict[str, Any] = {
        "add_assistant": lambda ctx: [*ctx.messages, Message.assistant("extra")],
        "add_user": lambda ctx: [*ctx.messages, Message.user("u")],
        "replace_id": lambda ctx: [replace(m, id="another") for m in ctx.messages],
    }
    found = {}
    for case, hook in hooks.items():
        run = world.start(chain(Hooks("A", process_output_result=hook)))
        talk = await Talk(run, given["model_turns"]).play(conversation("Hi"))
        found[case] = talk.result()
    return found
