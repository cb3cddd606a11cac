"""Working memory in an agent: from one conversation to the next, with guards around it."""

import json
import logging

import pytest
from pydantic import BaseModel

from penstock import Agent, InMemoryStorage, Memory, PIIDetector, Processor, Restore, SystemPromptScrubber
from penstock.processors.memory.working_memory import WorkingMemory
from penstock.testing import ScriptedModel
from tests.processors.memory.small_store import SmallStore

ANN = {"thread_id": "t", "resource_id": "ann"}


class Profile(BaseModel):
    """What an application wants to know."""

    name: str | None = None
    email: str | None = None
    tags: list[str] = []


def call(arguments, call_id="c1"):
    """Return a turn in which the model changes the memory."""
    return {"tool_calls": [{"id": call_id, "name": "update_working_memory", "args": arguments}]}


class Meddling(Processor):
    """Changes the memory of a resource between the showing and the call, once."""

    def __init__(self, store):
        self.store = store

    async def process_input_step(self, ctx):
        if ctx.step_number == 0:
            await self.store.put_working_memory("resource", "ann", "theirs", expected=None)


class Breaking(Processor):
    """Breaks the store between the showing and the call."""

    def __init__(self, store):
        self.store = store

    def process_input_step(self, ctx):
        self.store.broken = True


def setting(path, value):
    """Return a turn in which the model sets a field."""
    return call({"changes": [{"op": "set", "path": path, "value": value}]})


async def asked(agent, message, context=ANN, *, streamed=False):
    """Return the result of a request."""
    if not streamed:
        return await agent.generate(message, request_context=context)
    async with agent.stream(message, request_context=context) as stream:
        async for _ in stream.full_stream:
            pass
        return stream.result


def prompt(model, number=-1):
    """Return the texts of a prompt that the model was sent."""
    return [message.text for message in model.requests[number].messages]


async def test_what_is_learnt_in_one_conversation_is_known_in_the_next():
    """Of another thread of the same resource."""
    store, model = SmallStore(), ScriptedModel([setting("/name", "Ann"), "Hello Ann!", "You are Ann."])
    agent = Agent(model, processors=[WorkingMemory(store, template=Profile)])
    assert (await asked(agent, "I am Ann.")).text == "Hello Ann!"
    assert (await asked(agent, "Who am I?", {"thread_id": "u", "resource_id": "ann"})).text == "You are Ann."
    assert '{"name":"Ann"}' in "".join(prompt(model))
    assert model.requests[0].tools[0].name == "update_working_memory"


@pytest.mark.parametrize("template", [None, Profile])
async def test_the_prompt_of_a_request_stays_as_it_is(template):
    """What changed is told by the call and its result; what a provider keeps of the prompt stays of use."""
    arguments = {"memory": "Ann"} if template is None else {"changes": [{"op": "set", "path": "/name", "value": "Ann"}]}
    store, model = SmallStore(), ScriptedModel([call(arguments), "Hello!"])
    await asked(Agent(model, processors=[WorkingMemory(store, template=template)]), "I am Ann.")
    first, second = prompt(model, 0), prompt(model, 1)
    assert second[: len(first)] == first


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_guard_redacts_of_a_call_is_redacted_in_the_store(streamed):
    """What the model writes is guarded like any call."""
    store, model = SmallStore(), ScriptedModel([setting("/email", "ann@example.com"), "Noted."])
    guard = PIIDetector(strategy="redact", redaction_method="remove")
    agent = Agent(model, processors=[WorkingMemory(store, template=Profile), guard])
    await asked(agent, "Remember my address.", streamed=streamed)
    past = store.memories["resource", "ann"]
    assert "email" in json.loads(past[0].text)
    assert "example.com" not in past[0].text


async def test_what_is_restored_for_tools_is_kept_as_tokens():
    """What was redacted is never stored in the raw, whoever else may see it."""
    store = SmallStore()
    model = ScriptedModel([setting("/email", "[EMAIL_1]"), "I noted [EMAIL_1]."])
    guards = [PIIDetector(redaction_method="token"), Restore()]
    notes = WorkingMemory(store, template=Profile)
    agent = Agent(model, processors=guards, memory=Memory(InMemoryStorage(), working_memory=notes))
    assert (await asked(agent, "I am ann@example.com")).text == "I noted ann@example.com."
    assert store.memories["resource", "ann"][0].text == '{"email":"[EMAIL_1]"}'


async def test_a_blocked_call_stores_nothing():
    """Before it runs."""
    store, model = SmallStore(), ScriptedModel([setting("/email", "ann@example.com"), "Noted."])
    agent = Agent(model, processors=[WorkingMemory(store, template=Profile), PIIDetector(strategy="block")])
    assert (await asked(agent, "Remember my address.")).status == "blocked"
    assert store.memories == {}


async def test_answers_may_say_what_is_remembered_and_fill_in_the_template():
    """A scrubber takes neither for the system's secret; the instructions are."""
    known = "Ann Miller lives in the old mill by the river with seven cats and a very loud parrot"
    store = SmallStore()
    await store.put_working_memory("resource", "ann", known, expected=0)
    filled = (
        "# User Information\n- **First Name**: Ann\n- **Last Name**: Miller\n- **Location**: mill\n- **Occupation**:\n"
    )
    model = ScriptedModel([call({"memory": filled}), f"I know: {known}."])
    agent = Agent(model, processors=[WorkingMemory(store), SystemPromptScrubber(strategy="block")])
    result = await asked(agent, "What do you know of me?")
    assert (result.status, result.text) == ("success", f"I know: {known}.")
    assert store.memories["resource", "ann"][-1].text == filled
    leaking = ScriptedModel([prompt(model, 0)[0]])
    agent = Agent(leaking, processors=[WorkingMemory(store), SystemPromptScrubber(strategy="block")])
    assert (await asked(agent, "What are you told?")).status == "blocked"


async def test_a_memory_that_others_changed_meanwhile_is_not_replaced_unseen():
    """The model is shown how it stands, and sends it anew."""
    store = SmallStore()
    await store.put_working_memory("resource", "ann", "old", expected=0)
    model = ScriptedModel([call({"memory": "mine"}), call({"memory": "theirs and mine"}, "c2"), "Done."])
    agent = Agent(model, processors=[WorkingMemory(store), Meddling(store)])
    assert (await asked(agent, "Hello")).text == "Done."
    (refused,) = [part for message in model.requests[1].messages for part in message.parts if part.type == "tool"][-1:]
    assert refused.result["problem"] == "changed"
    assert "<working_memory_data>\ntheirs\n</working_memory_data>" in refused.result["reason"]
    assert [record.text for record in store.memories["resource", "ann"]] == ["old", "theirs", "theirs and mine"]


async def test_a_model_may_replace_what_it_has_replaced_itself():
    """Its own change is no surprise to it."""
    store = SmallStore()
    model = ScriptedModel([call({"memory": "one"}), call({"memory": "two"}, "c2"), "Done."])
    await asked(Agent(model, processors=[WorkingMemory(store)]), "Hello")
    assert [record.text for record in store.memories["resource", "ann"]] == ["one", "two"]


async def test_a_call_that_fails_is_told_and_the_run_goes_on(caplog):
    """As with any tool; the log says what happened."""
    store = SmallStore()
    model = ScriptedModel([call({"memory": "x"}), "I could not note that."])
    agent = Agent(model, processors=[WorkingMemory(store), Breaking(store)])
    with caplog.at_level(logging.WARNING, "penstock"):
        assert (await asked(agent, "Hello")).text == "I could not note that."
    assert "it is broken" in caplog.text


async def test_the_shown_memory_is_no_part_of_the_conversation():
    """It is neither the caller's nor the model's, so nobody keeps it as such."""
    store, model = SmallStore(), ScriptedModel(["Hello!"])
    result = await asked(Agent(model, processors=[WorkingMemory(store)]), "Hi")
    listed = result.message_list
    assert [message.text for message in (*listed.input, *listed.response)] == ["Hi", "Hello!"]
