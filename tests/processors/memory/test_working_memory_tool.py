"""What a model can do to a working memory, in each of the ways."""

import json
import logging
from functools import partial

import anyio
import pytest
from pydantic import BaseModel, field_validator

from penstock import OptionError
from penstock.engine.values.stored import Thread
from penstock.processors.memory import _working_records, working_memory_update
from penstock.processors.memory.working_memory_update import apply_changes, working_memory_tool
from penstock.tools.context import ToolContext, ToolError
from tests.processors.memory.small_store import SmallStore

CONTEXT = {"thread_id": "t", "resource_id": "ann"}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}},
    },
    "required": ["name"],
}


class Address(BaseModel):
    """Where somebody lives."""

    city: str | None = None
    zip: str


class Profile(BaseModel):
    """Who somebody is."""

    name: str
    age: int | None = None
    tags: list[str] = []
    address: Address | None = None

    @field_validator("name")
    @classmethod
    def is_short(cls, value):
        """Refuse with words of its own."""
        if len(value) > 20:
            raise ValueError(f"{value} is too long")
        return value


async def called(arguments, now=None, *, store=None, scope="resource", context=CONTEXT, **options):
    """Return the result of one call, and what is stored then."""
    store = store or SmallStore()
    if now is not None:
        await store.put_working_memory(scope, {"resource": "ann", "thread": "t"}[scope], now, expected=0)
    tool = working_memory_tool(store, scope=scope, **options)
    result = await tool.call(arguments, ToolContext(request_context=context, run_id="run-1"))
    past = store.memories.get((scope, "ann" if scope == "resource" else "t"))
    return dict(result), past[-1].text if past else None


replaced = partial(called, template="# Profile\n- **Name**:\n")
edited = partial(called, template="# Profile\n- **Name**:\n", update="edit")
merged = partial(called, template=SCHEMA, update="merge")
changed = partial(called, template=Profile)


def problem(result):
    """Return the word for why nothing was changed."""
    assert result["success"] is False
    return result["problem"]


# A text, all of it


async def test_a_text_takes_the_place_of_the_one_before():
    """All of it."""
    assert await replaced({"memory": "# Bob"}, "# Ann") == ({"success": True}, "# Bob")


async def test_an_empty_text_wipes_nothing_and_null_wipes_all():
    """Deleting is said, never slipped."""
    for text in ("", " \n"):
        result, left = await replaced({"memory": text}, "data")
        assert (problem(result), left) == ("empty", "data")
    assert await replaced({"memory": None}, "data") == ({"success": True}, "")


async def test_the_bare_template_replaces_nothing_that_is_known():
    """Up to white space; where nothing is known it may be stored."""
    bare = "# Profile\n\n-  **Name**:"
    result, left = await replaced({"memory": bare}, "data")
    assert (problem(result), left) == ("template-only", "data")
    assert await replaced({"memory": bare}) == ({"success": True}, bare)


@pytest.mark.parametrize("arguments", [{"memory": {"a": 1}}, {"memory": 7}, {}, {"memory": "x", "more": 1}])
async def test_what_is_no_text_is_refused(arguments):
    """It is not made one."""
    with pytest.raises(ToolError):
        await replaced(arguments)


# Pieces of a text


async def test_a_piece_is_put_at_the_end():
    """What to replace is not looked at then."""
    assert (await edited({"new_memory": "B"}))[1] == "B"
    assert (await edited({"new_memory": "B"}, "A"))[1] == "A\nB"
    assert (await edited({"new_memory": "Rome", "search_string": "Paris"}, "City: Paris"))[1] == "City: Paris\nRome"


async def test_a_piece_is_corrected():
    """Where it stands; if it stands nowhere, it is put at the end."""
    arguments = {"new_memory": "Rome", "search_string": "Paris", "update_reason": "clarify-existing-memory"}
    assert (await edited(arguments, "City: Paris"))[1] == "City: Rome"
    assert (await edited(arguments, "City: Oslo"))[1] == "City: Oslo\nRome"


async def test_to_correct_something_it_has_to_be_named():
    """Nothing is guessed."""
    arguments = {"new_memory": "B", "update_reason": "clarify-existing-memory"}
    result, left = await edited(arguments, "A")
    assert (problem(result), left) == ("no-search-text", "A")
    assert "B" not in result["reason"]


async def test_what_serves_all_threads_is_not_thrown_away_for_one():
    """In the scope of a thread it is the model's to decide."""
    arguments = {"new_memory": "B", "search_string": "A", "update_reason": "replace-irrelevant-memory"}
    result, left = await edited(arguments, "A")
    assert (problem(result), left) == ("not-replaced", "A")
    assert (await edited(arguments, "A", scope="thread"))[1] == "B"


async def test_what_stands_there_is_not_put_there_again():
    """Line by line: a name within another is no duplicate."""
    result, left = await edited({"new_memory": " Ann"}, "Bob\nAnn\nEve")
    assert (problem(result), left) == ("duplicate", "Bob\nAnn\nEve")
    assert (await edited({"new_memory": "Ann"}, "Anna"))[1] == "Anna\nAnn"


@pytest.mark.parametrize("new", ["", "\n", "# Profile - **Name**:"])
async def test_nothing_and_the_bare_template_are_no_piece(new):
    """There is nothing to keep."""
    result, left = await edited({"new_memory": new}, "A")
    assert (result["success"], left) == (False, "A")


@pytest.mark.parametrize(
    "arguments",
    [{"new_memory": 7}, {"new_memory": None}, {"new_memory": "a", "update_reason": "because"}, {"search_string": "a"}],
)
async def test_pieces_are_texts(arguments):
    """Anything else is refused."""
    with pytest.raises(ToolError):
        await edited(arguments)


# Objects: fields that change


async def test_fields_are_merged():
    """Objects go deep; lists are replaced; what is not sent stays."""
    now = '{"name":"Ann","age":30,"tags":["a"],"address":{"city":"Rome","zip":"1"}}'
    patch = {"age": 31, "tags": ["b"], "address": {"city": "Oslo"}}
    left = (await merged({"memory": patch}, now))[1]
    assert json.loads(left) == {"name": "Ann", "age": 31, "tags": ["b"], "address": {"city": "Oslo", "zip": "1"}}


async def test_the_wrapper_may_be_missing():
    """Models forget it; nothing at all changes nothing."""
    assert (await merged({"age": 5}, '{"name":"Ann"}'))[1] == '{"name":"Ann","age":5}'
    for nothing in ({}, {"memory": {}}):
        assert await merged(nothing, '{"name":"Ann"}') == ({"success": True}, '{"name":"Ann"}')


async def test_null_deletes():
    """A field, a field of a field, or all."""
    now = '{"name":"Ann","age":30,"address":{"city":"Rome","zip":"1"}}'
    left = (await merged({"memory": {"age": None, "address": {"city": None}}}, now))[1]
    assert json.loads(left) == {"name": "Ann", "address": {"zip": "1"}}
    assert (await merged({"memory": None}, now))[1] == ""


async def test_what_does_not_fit_is_refused_and_not_quoted():
    """Nothing is stored; the model is told where and what is allowed."""
    result, left = await merged({"memory": {"age": "secret"}}, '{"age":1}')
    assert (problem(result), left) == ("does-not-fit", '{"age":1}')
    assert "/age" in result["reason"]
    assert "secret" not in result["reason"]
    for wrong in ("[]", ["a"], 7):
        assert problem((await merged({"memory": wrong}, '{"age":1}'))[0]) == "does-not-fit"


async def test_what_is_not_there_yet_is_no_problem():
    """A memory is filled bit by bit, whatever its type requires."""
    assert (await merged({"memory": {"age": 1}}))[1] == '{"age":1}'
    assert (await changed({"changes": [{"op": "set", "path": "/address/city", "value": "Rome"}]}))[1] == (
        '{"address":{"city":"Rome"}}'
    )


@pytest.mark.parametrize("kept", ["not json", "[1]", '{"a":', "[" * 3000])
async def test_what_cannot_be_read_is_not_thrown_away(kept):
    """The model is told; it may say that all is to be deleted."""
    result, left = await merged({"memory": {"name": "Bob"}}, kept)
    assert (problem(result), left) == ("not-json", kept)
    result, left = await changed({"changes": [{"op": "set", "path": "/name", "value": "Bob"}]}, kept)
    assert (problem(result), left) == ("not-json", kept)
    assert (await merged({"memory": None}, kept))[1] == ""
    assert (await changed({"changes": [{"op": "delete", "path": ""}]}, kept))[1] == ""


async def test_what_did_not_fit_before_blocks_nothing_else():
    """Types change; what is kept from before stays until it is changed."""
    assert (await merged({"memory": {"name": "Bob"}}, '{"age":"old"}'))[1] == '{"age":"old","name":"Bob"}'
    left = (await changed({"changes": [{"op": "set", "path": "/name", "value": "Bob"}]}, '{"gone":1}'))[1]
    assert left == '{"gone":1,"name":"Bob"}'


# Objects: single changes


async def test_fields_are_set_appended_and_deleted():
    """All in one call."""
    now = '{"name":"Ann","age":30,"tags":["a"]}'
    changes = [
        {"op": "set", "path": "/address/city", "value": "Rome"},
        {"op": "append", "path": "/tags", "value": "b"},
        {"op": "delete", "path": "/age"},
    ]
    left = (await changed({"changes": changes}, now))[1]
    assert json.loads(left) == {"name": "Ann", "tags": ["a", "b"], "address": {"city": "Rome"}}


async def test_all_changes_are_made_or_none():
    """One that cannot be made undoes those before it."""
    changes = [{"op": "set", "path": "/name", "value": "Bob"}, {"op": "append", "path": "/name", "value": "x"}]
    result, left = await changed({"changes": changes}, '{"name":"Ann"}')
    assert (problem(result), left) == ("does-not-fit", '{"name":"Ann"}')
    assert "changes[1]" in result["reason"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"op": "append", "path": "/tags", "value": "a"}, {"tags": ["a", "b"]}),
        ({"op": "append", "path": "/tags", "value": "c"}, {"tags": ["a", "b", "c"]}),
        ({"op": "delete", "path": "/tags", "value": "a"}, {"tags": ["b"]}),
        ({"op": "delete", "path": "/tags/1"}, {"tags": ["a"]}),
        ({"op": "delete", "path": "/tags"}, {}),
        ({"op": "set", "path": "/tags", "value": None}, {}),
        ({"op": "set", "path": "/tags/0", "value": "z"}, {"tags": ["z", "b"]}),
        ({"op": "delete", "path": "/address/city"}, {"tags": ["a", "b"]}),
        ({"op": "delete", "path": "/age", "value": 7}, {"tags": ["a", "b"]}),
        ({"op": "set", "path": "name", "value": "Ann"}, {"tags": ["a", "b"], "name": "Ann"}),
    ],
)
async def test_a_change_is_made(change, expected):
    """What stands in a list already is not put there twice; what is not there is deleted already."""
    result, left = await changed({"changes": [change]}, '{"tags":["a","b"]}')
    assert (result, json.loads(left)) == ({"success": True}, expected)


@pytest.mark.parametrize(
    "change",
    [
        {"op": "set", "path": "/nme", "value": "x"},
        {"op": "set", "path": "/address/street", "value": "x"},
        {"op": "set", "path": "/age", "value": "31"},
        {"op": "set", "path": "/name", "value": "x" * 21},
        {"op": "set", "path": "/tags/7", "value": "x"},
        {"op": "set", "path": "/tags/9999999999", "value": "x"},
        {"op": "set", "path": "/tags/-1", "value": "x"},
        {"op": "set", "path": "/name/first", "value": "x"},
        {"op": "set", "path": "/" + "a/" * 60, "value": "x"},
        {"op": "set", "path": "", "value": {}},
        {"op": "append", "path": "/tags", "value": 1},
        {"op": "append", "path": "/tags"},
        {"op": "append", "path": "/name", "value": "x"},
        {"op": "delete", "path": "/name", "value": "x"},
    ],
)
async def test_a_change_that_does_not_fit_is_refused(change):
    """And quoted nowhere."""
    now = '{"name":"Ann","tags":["a"]}'
    result, left = await changed({"changes": [change]}, now)
    assert (problem(result), left) == ("does-not-fit", now)
    assert "x" * 21 not in result["reason"]


@pytest.mark.parametrize(
    "changes", [[], None, "x", [7], [{"op": "set"}], [{"op": "move", "path": "/a"}], [{"op": "set", "path": 1}]]
)
async def test_what_is_no_list_of_changes_is_refused(changes):
    """Nothing is guessed."""
    with pytest.raises(ToolError):
        await changed({"changes": changes})


async def test_a_name_may_have_a_slash_in_it():
    """As JSON Pointers write it."""
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    left = (await called({"changes": [{"op": "set", "path": "/a~1b~0c", "value": 1}]}, template=schema))[1]
    assert left == '{"a/b~c":1}'


def test_the_model_is_told_the_shape():
    """Of fields in the description; of an object to be merged in the parameters, without what is required."""
    tool = working_memory_tool(SmallStore(), template=Profile)
    assert '"city"' in tool.description
    assert '"required"' not in tool.description
    parameters = working_memory_tool(SmallStore(), template=Profile, update="merge").spec.parameters
    assert set(parameters["properties"]["memory"]["properties"]) == {"name", "age", "tags", "address"}
    assert set(parameters["$defs"]) == {"Address"}
    assert "required" not in parameters["$defs"]["Address"]


def test_a_tool_has_the_name_that_is_given():
    """And options are checked."""
    assert working_memory_tool(SmallStore(), name="set_working_memory").name == "set_working_memory"
    with pytest.raises(OptionError):
        working_memory_tool(SmallStore(), update="merge")


# Whose it is


async def test_without_the_id_of_its_scope_it_is_an_error():
    """The model is told the kind, the log the rest."""
    for scope, context in (("resource", {"thread_id": "t"}), ("thread", {"resource_id": "ann"})):
        with pytest.raises(ToolError):
            await replaced({"memory": "x"}, scope=scope, context=context)


async def test_a_thread_of_another_resource_is_refused(caplog):
    """Whatever the scope."""
    for scope in ("resource", "thread"):
        store = SmallStore()
        await store.create_thread(Thread("t", "bob"))
        with caplog.at_level(logging.WARNING, "penstock"), pytest.raises(ToolError) as caught:
            await replaced({"memory": "secret"}, store=store, scope=scope)
        assert "OwnershipError" in caught.value.for_model
        assert store.memories == {}
    assert "another resource" in caplog.text
    assert "secret" not in caplog.text


async def test_a_missing_thread_is_made():
    """Of the resource; without one, of its own."""
    store = SmallStore()
    await replaced({"memory": "x"}, store=store, scope="thread")
    await replaced({"memory": "x"}, store=store, scope="thread", context={"thread_id": "alone"})
    assert {name: thread.resource_id for name, thread in store.kept_threads.items()} == {"t": "ann", "alone": "alone"}


async def test_who_changed_it_is_kept():
    """The run's id."""
    store = SmallStore()
    await replaced({"memory": "x"}, store=store)
    assert store.memories["resource", "ann"][0].author == "run-1"


async def test_a_store_that_fails_is_told_and_logged(caplog):
    """Never taken for done."""
    store = SmallStore()
    store.broken = True
    with caplog.at_level(logging.WARNING, "penstock"), pytest.raises(ToolError) as caught:
        await replaced({"memory": "x"}, store=store)
    assert "StorageError" in caught.value.for_model
    assert "it is broken" in caplog.text


# How much


async def test_it_has_a_size():
    """What is longer is refused, unless it makes it shorter than it was."""
    result, left = await replaced({"memory": "x" * 11}, "data", max_characters=10)
    assert (problem(result), left) == ("too-long", "data")
    assert (await replaced({"memory": "x" * 11}, "y" * 12, max_characters=10))[1] == "x" * 11


async def test_what_no_store_has_a_place_for_is_left_out():
    """NUL characters, and halves of characters."""
    assert (await replaced({"memory": "a\x00b\ud800c"}))[1] == "ab?c"
    left = (await changed({"changes": [{"op": "set", "path": "/name", "value": "\ud800"}]}))[1]
    assert json.loads(left) == {"name": "?"}


# Many at once


async def test_two_hundred_tasks_lose_nothing():
    """Each appends a value, and sets a field of its own."""
    store = SmallStore()
    schema = {"type": "object", "properties": {"tags": {"type": "array"}}, "additionalProperties": True}
    tool = working_memory_tool(store, template=schema)

    async def add(number):
        changes = [
            {"op": "append", "path": "/tags", "value": number},
            {"op": "set", "path": f"/f{number}", "value": number},
        ]
        result = await tool.call({"changes": changes}, ToolContext(request_context=CONTEXT, run_id=f"run-{number}"))
        assert result["success"]

    async with anyio.create_task_group() as group:
        for number in range(200):
            group.start_soon(add, number)
    past = store.memories["resource", "ann"]
    left = json.loads(past[-1].text)
    assert len(past) == 200
    assert sorted(left.pop("tags")) == list(range(200))
    assert left == {f"f{number}": number for number in range(200)}


async def test_what_another_process_changed_meanwhile_is_read_again():
    """And the change is made of that."""
    store = SmallStore()

    async def other():
        await store.put_working_memory("resource", "ann", '{"age":7}', expected=0)

    store.before_put = other
    assert (await merged({"memory": {"name": "Ann"}}, store=store))[1] == '{"age":7,"name":"Ann"}'


async def test_a_task_that_is_cancelled_blocks_nobody():
    """The queue goes on."""
    store = SmallStore()
    reached = anyio.Event()

    async def hang():
        reached.set()
        await anyio.sleep_forever()

    store.before_put = hang
    async with anyio.create_task_group() as group:
        group.start_soon(partial(merged, {"memory": {"name": "Ann"}}, store=store))
        await reached.wait()
        group.cancel_scope.cancel()
    assert (await merged({"memory": {"name": "Bob"}}, store=store))[1] == '{"name":"Bob"}'


async def test_it_is_not_read_again_for_ever(monkeypatch, caplog):
    """A memory that others keep changing is an error in the end, and their last word stands."""
    monkeypatch.setattr(_working_records, "_ATTEMPTS", 3)
    store = SmallStore()

    async def other():
        await store.put_working_memory("resource", "ann", "theirs", expected=None)
        store.before_put = other

    store.before_put = other
    with caplog.at_level(logging.WARNING, "penstock"), pytest.raises(ToolError) as caught:
        await replaced({"memory": "mine"}, store=store)
    assert "StorageConflictError" in caught.value.for_model
    assert [record.text for record in store.memories["resource", "ann"]] == ["theirs"] * 3


NAMED = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"name": {"type": "string"}, "home": NAMED}},
        {
            "properties": {"name": {}},
            "allOf": [{"properties": {"home": {"$ref": "#/$defs/home"}}}],
            "$defs": {"home": NAMED},
        },
        {
            "properties": {
                "name": {},
                "home": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"x": {}}}, NAMED]},
            }
        },
    ],
)
async def test_a_field_that_a_json_schema_does_not_name_is_not_stored(schema):
    """At any depth, wherever its fields are named; unless it says that others are allowed."""
    schema = {"type": "object", **schema}
    for sent in ({"nmae": "Ann"}, {"home": {"ctiy": "Bern"}}):
        result, stored = await called({"memory": sent}, template=schema, update="merge")
        assert (result["problem"], stored) == ("does-not-fit", None)
        assert "unknown field" in result["reason"]
    assert (await called({"memory": {"name": "A", "home": {"city": "B"}}}, template=schema, update="merge"))[0][
        "success"
    ]
    opened = {**schema, "additionalProperties": {}}
    assert (await called({"memory": {"nmae": "Ann"}}, template=opened, update="merge"))[0]["success"]


@pytest.mark.rest
async def test_a_call_has_a_largest_number_of_changes_and_characters():
    """The model is told what to do; nothing is changed."""
    changes = [{"op": "append", "path": "/tags", "value": f"t{at}"} for at in range(501)]
    with pytest.raises(ToolError) as caught:
        await called({"changes": changes}, template=Profile)
    assert "at most 500 at a time, and these are 501" in caught.value.for_model
    with pytest.raises(ToolError) as caught:
        await called({"memory": "x" * 200_000})
    assert "Send less at a time" in caught.value.for_model
    deep = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(ToolError):
        await called({"memory": deep}, template=Profile, update="merge")


def test_changes_of_a_list_write_each_item_once(monkeypatch):
    """Appends and removals of values, many in a call: their work is linear."""
    written = []
    plain = working_memory_update._written
    monkeypatch.setattr(working_memory_update, "_written", lambda value: written.append(value) or plain(value))
    changes = [{"op": op, "path": "/tags", "value": at} for at in range(200) for op in ("append", "append", "delete")]
    assert apply_changes({"tags": list(range(1_000, 1_300))}, changes)["tags"] == list(range(1_000, 1_300))
    assert len(written) == 300 + 600


def test_an_item_that_changes_within_its_list_is_compared_anew():
    """What was written of it before counts no more."""
    changes = [
        {"op": "append", "path": "/tags", "value": {"n": 1}},
        {"op": "set", "path": "/tags/0/n", "value": 2},
        {"op": "append", "path": "/tags", "value": {"n": 2}},
        {"op": "append", "path": "/tags", "value": {"n": 1}},
    ]
    assert apply_changes({}, changes) == {"tags": [{"n": 2}, {"n": 1}]}
