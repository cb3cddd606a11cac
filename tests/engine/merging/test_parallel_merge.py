"""What becomes of parallel steps' changes where they meet: messages, parts, spans, facts, overrides, policies."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import (
    Answer,
    Chunk,
    Edit,
    InputContext,
    InputStepContext,
    Key,
    Message,
    MessageList,
    Processor,
    TextPart,
    ToolPart,
    ToolResultContext,
    Workflow,
    member,
    processor,
)
from penstock.engine import Conflict, MergeConflictError, Overrides, StepFailedError, TextEdits, pick
from penstock.engine.values import message_list
from penstock.engine.values.texts import KeyText, with_part_texts
from tests.engine.merging.many_redactors import run
from tests.laws import seeds

COUNT = Key[int]("count")


@pytest.mark.rest
@pytest.mark.parametrize("first", seeds(range(0, 3_000, 750)))
def test_no_redaction_is_lost_in_any_order_delay_or_position(first: int) -> None:
    """A few thousand cases; `python -m tests.engine.merging.many_redactors` runs 100,000."""
    assert asyncio.run(run(range(first, first + 750))) == []


@pytest.mark.rest
def test_no_redaction_is_lost_on_trio() -> None:
    """A few hundred cases on the other event loop."""
    assert anyio.run(run, range(100_000, 100_400), backend="trio") == []


def editing(id: str, *edits: Edit, **claims: Any) -> Processor[Any]:
    """A step that makes those edits to the first text."""

    @processor("process_input", id=id, **{"edits": "spans", **claims})
    def step(ctx: InputContext) -> MessageList:
        place = next(iter(ctx.message_list.texts(ctx.messages)))[0]
        return ctx.message_list.edit_text({place: edits})

    return step


def changing(id: str, change: Any, **claims: Any) -> Processor[Any]:
    """A step that returns what a function makes of its context."""

    @processor("process_input", id=id, **{"edits": "anything", "role": "transform", **claims})
    async def step(ctx: InputContext) -> Any:
        await anyio.lowlevel.checkpoint()
        return change(ctx)

    return step


def joined(*steps: Processor[Any], merge: Any = None) -> Workflow:
    """Steps beside each other; what may be unsafe is allowed here by a policy that settles nothing."""
    return Workflow("w").parallel(*steps, merge=merge or _refuse)


def _refuse(conflict: Conflict) -> Any:
    raise AssertionError(conflict.place)


GREETING = "call 555-1234 or mail ann@example.com now"


@pytest.mark.parametrize("first", ["phone", "mail"])
def test_two_redactors_of_one_text_both_count(first: str) -> None:
    """E03 of the reference, in both orders."""
    phone = editing("phone", Edit(5, 13, "[PHONE]", "redact"))
    mail = editing("mail", Edit(22, 37, "[MAIL]", "redact"))
    steps = (phone, mail) if first == "phone" else (mail, phone)
    outcome = Workflow("w").parallel(*steps).check_sync(GREETING)
    assert outcome.text == "call [PHONE] or mail [MAIL] now"


async def test_of_parallel_redactors_only_the_merged_text_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without records, nobody reads what each of them alone would leave, but for a step behind one of them."""
    made: list[str] = []

    def counted(part: Any, texts: Any) -> Any:
        made.append("".join(texts.values()))
        return with_part_texts(part, texts)

    monkeypatch.setattr(message_list, "with_part_texts", counted)
    phone = editing("phone", Edit(5, 13, "[PHONE]", "redact"))
    mail = editing("mail", Edit(22, 37, "[MAIL]", "redact"))
    run = Workflow("w").parallel(phone, mail).start()
    assert (await run.process_input(GREETING)).text == "call [PHONE] or mail [MAIL] now"
    assert made == ["call [PHONE] or mail [MAIL] now"]
    made.clear()
    greets = editing("greets", Edit(0, 4, "ring"))
    chain = Workflow("chain").then(phone).then(greets)
    run = Workflow("w").parallel(chain, mail).start()
    assert (await run.process_input(GREETING)).text == "ring [PHONE] or mail [MAIL] now"
    assert made == ["call [PHONE] or mail ann@example.com now", "ring [PHONE] or mail [MAIL] now"]


def test_what_one_branch_alone_changed_is_taken_as_it_left_it() -> None:
    """It is not put together again from its changes."""
    mine = Message.user("mine", id="1", metadata={"by": "swap"})
    swap = changing("swap", lambda ctx: ctx.message_list.replace(mine))
    outcome = anyio.run(joined(swap, changing("idle", lambda _: None)).check, [Message.user("yours", id="1")])
    (left,) = outcome.message_list
    assert left is mine


@pytest.mark.parametrize("shape", ["then", "parallel", "one of two", "dag"])
def test_what_was_redacted_is_nowhere_in_the_list_that_is_left(shape: str) -> None:
    """Not in what a pickle of it holds either, if nobody has read it."""
    mail = editing("mail", Edit(22, 37, "[MAIL]", "redact"))
    phone = editing("phone", Edit(5, 13, "[PHONE]", "redact"))
    idle = changing("idle", lambda _: None)
    workflow = {
        "then": Workflow("w").then(mail),
        "parallel": Workflow("w").parallel(mail, phone),
        "one of two": joined(mail, idle),
        "dag": Workflow("w").dag(member(idle, id="i"), member(mail, id="m", after=["i"])),
    }[shape]
    left = anyio.run(workflow.start().process_input, GREETING).message_list
    assert b"ann@example.com" not in pickle.dumps(left)
    assert "[MAIL]" in left.all[0].text


def test_a_redactor_beside_a_chain_that_rewrites_and_redacts_is_not_undone() -> None:
    """The chain's text quotes what the other hides: it must not win, whatever it redacted itself."""
    rewrite = editing("rewrite", Edit(0, len(GREETING), GREETING.upper(), "replace"))
    redact = editing("redact", Edit(5, 13, "[PHONE]", "redact"))
    chain = Workflow("chain").then(rewrite).then(redact)
    mail = editing("mail", Edit(22, 37, "[MAIL]", "redact"))
    outcome = Workflow("w").parallel(chain, mail).check_sync(GREETING)
    assert outcome.blocked
    assert "EXAMPLE" not in repr(outcome.messages) + repr(outcome.records[-1].tripwire)


def test_messages_appended_by_both_stay_in_declared_order() -> None:
    """Behind the same message, whoever finished first."""
    add = {name: changing(name, lambda ctx, name=name: ctx.message_list.add(Message.user(name))) for name in "ab"}
    outcome = anyio.run(joined(add["a"], add["b"]).check, "hi")
    assert [message.text for message in outcome.messages] == ["hi", "a", "b"]


def test_messages_put_in_front_stay_in_front() -> None:
    """And follow their predecessors elsewhere, also where that one is removed by the other."""
    messages = [Message.user("one", id="1"), Message.user("two", id="2"), Message.user("three", id="3")]

    def weave(ctx: Any) -> Any:
        return [Message.user("head"), ctx.messages[0], ctx.messages[1], Message.user("after two"), ctx.messages[2]]

    remove = changing("remove", lambda ctx: ctx.message_list.remove("2"))
    outcome = anyio.run(joined(changing("weave", weave), remove).check, messages)
    assert [message.text for message in outcome.messages] == ["head", "one", "after two", "three"]


def test_a_removal_wins_over_edits() -> None:
    """Deletions win."""
    messages = [Message.user("one", id="1"), Message.user("two", id="2")]
    remove = changing("remove", lambda ctx: ctx.message_list.remove("1"))
    outcome = anyio.run(joined(editing("edit", Edit(0, 1, "O", "redact")), remove).check, messages)
    assert [message.text for message in outcome.messages] == ["two"]


def test_parts_are_merged_one_by_one() -> None:
    """One removes a part, the other edits another."""
    message = Message.user([TextPart("a"), TextPart("b"), TextPart("c")], id="1")
    cut = changing("cut", lambda ctx: [ctx.messages[0].with_parts(ctx.messages[0].parts[1:])])
    edit = changing("edit", lambda ctx: ctx.message_list.map_text(lambda text: text.replace("c", "C")))
    outcome = anyio.run(joined(cut, edit).check, [message])
    assert [part.text for part in outcome.messages[0].parts] == ["b", "C"]


def test_fields_of_a_message_and_its_metadata_merge_by_key() -> None:
    """Role by one, metadata by both, a key taken away by one."""
    message = Message.user("hi", id="1", metadata={"x": 1, "gone": 2})

    def one(ctx: Any) -> Any:
        old = ctx.messages[0]
        return [Message(old.role, old.parts, id=old.id, created_at=old.created_at, metadata={"x": 1, "a": 1})]

    def two(ctx: Any) -> Any:
        old = ctx.messages[0].with_metadata(b=2)
        return [Message("assistant", old.parts, id=old.id, created_at=old.created_at, metadata=old.metadata)]

    outcome = anyio.run(joined(changing("one", one), changing("two", two)).check, [message])
    (merged,) = outcome.messages
    assert (merged.role, dict(merged.metadata)) == ("assistant", {"x": 1, "a": 1, "b": 2})


def test_the_order_of_messages_is_one_thing() -> None:
    """One reverses, the other edits; two that reorder differently disagree."""
    messages = [Message.user(text, id=text) for text in "abc"]
    reverse = changing("reverse", lambda ctx: list(reversed(ctx.messages)))
    outcome = anyio.run(joined(reverse, editing("edit", Edit(0, 1, "A", "redact"))).check, messages)
    assert [message.text for message in outcome.messages] == ["c", "b", "A"]
    rotate = changing("rotate", lambda ctx: [*ctx.messages[1:], ctx.messages[0]])
    with pytest.raises(MergeConflictError, match="the order of the messages"):
        _conflicting(reverse, rotate, messages)


def _conflicting(one: Processor[Any], other: Processor[Any], messages: Any, stage: str = "process_input") -> Any:
    """Run two steps beside each other that validation would refuse."""
    from penstock.engine.graph.nodes import resolve

    workflow = Workflow("w").parallel(one, other)
    workflow.plans.resolved = resolve(workflow.root)
    return anyio.run(lambda: workflow.check(messages, stage=stage))


class Putting(Processor):
    """Puts a count."""

    edits = "nothing"
    role = "transform"
    provides = COUNT

    def __init__(self, id: str, count: int) -> None:
        self.id = id
        self.count = count

    def process_input(self, ctx: InputContext) -> None:
        """Put it."""
        ctx.put(COUNT, self.count)


def test_facts_merge_by_key_and_equal_ones_never_conflict() -> None:
    """Two that say the same agree; two that do not are named."""
    assert Workflow("w").parallel(Putting("a", 1), Putting("b", 1)).check_sync("hi").fact(COUNT) == 1
    with pytest.raises(MergeConflictError) as caught:
        Workflow("w").parallel(Putting("a", 1), Putting("b", 2)).check_sync("hi")
    assert caught.value.culprits == ("a", "b")
    assert "count" in caught.value.places[0]


@pytest.mark.parametrize(
    ("merge", "count"),
    [("first", 1), ("last", 2), (pick("b"), 2), ("sequence", 2), (lambda c: sum(c.values.values()), 3)],
)
def test_a_policy_settles_a_conflict(merge: Any, count: int) -> None:
    """first, last, pick, sequence, or a function of the conflict."""
    workflow = Workflow("w").parallel(Putting("a", 1), Putting("b", 2), merge=merge)
    assert workflow.check_sync("hi").fact(COUNT) == count


@pytest.mark.parametrize("merge", ["first", "last", pick("b"), pick("a")])
def test_a_policy_holds_in_a_nested_workflow_too(merge: Any) -> None:
    """Branches are picked by the ids that stand in the call, however deep it is nested."""
    workflow = Workflow("inner").parallel(Putting("a", 1), Putting("b", 2), merge=merge)
    alone = workflow.check_sync("hi").fact(COUNT)
    assert Workflow("outer").then(workflow).check_sync("hi").fact(COUNT) == alone


def test_a_conflict_function_is_told_what_happened() -> None:
    """Where, what stood there, and what each branch made of it, by the branch's id."""
    told: list[Conflict] = []

    def settle(conflict: Conflict) -> Any:
        told.append(conflict)
        return "settled"

    steps = [editing(name, Edit(0, 2, name * 2), role="transform") for name in "ab"]
    workflow = Workflow("inner").parallel(*steps, merge=settle)
    for outer in (workflow, Workflow("outer").then(workflow)):
        outcome = outer.check_sync([Message.user("hi all", id="1")])
        assert outcome.text == "settled"
    assert told[0].place == ("messages", "1", "parts", 0, "text")
    assert told[0].base == "hi all"
    assert [dict(one.values) for one in told] == [{"a": "aa all", "b": "bb all"}] * 2


@pytest.mark.parametrize(("merge", "text"), [("first", "aa all"), ("last", "bb all"), (pick("b"), "bb all")])
def test_a_policy_settles_texts_span_by_span(merge: Any, text: str) -> None:
    """Only what they disagree about; the redaction elsewhere stays whoever wins."""
    steps = [editing(name, Edit(0, 2, name * 2), role="transform") for name in "ab"]
    redact = editing("c", Edit(3, 6, "[X]", "redact"))
    outcome = Workflow("w").parallel(*steps, redact, merge=merge).check_sync("hi all")
    assert outcome.text == text.replace("all", "[X]")


def test_a_pick_of_nobody_is_a_mistake_in_the_graph() -> None:
    """Known when the graph is built, not when it first conflicts."""
    from penstock import WorkflowError

    workflow = Workflow("w").parallel(Putting("a", 1), Putting("b", 2), merge=pick("nobody"))
    with pytest.raises(WorkflowError, match="nobody"):
        workflow.validate()


class Setting(Processor):
    """Returns overrides."""

    role = "transform"

    def __init__(self, id: str, **overrides: Any) -> None:
        self.id = id
        self.overrides = overrides

    def process_input_step(self, ctx: InputStepContext) -> Overrides:
        """Return them."""
        return Overrides(**self.overrides)


def test_overrides_merge_by_key_where_they_are_mappings() -> None:
    """Settings by key; other fields whole; a tool taken away stays away."""
    workflow = joined(
        Setting("a", model_settings={"temperature": 0}, model="small", active_tools=["x", "y"]),
        Setting("b", model_settings={"top_p": 1}, provider_options={"p": {}}, active_tools=["y", "z"]),
    )
    outcome = anyio.run(lambda: _step(workflow, model_settings={"seed": 1}, active_tools=["x", "y", "z"], model="big"))
    assert outcome.overrides["model_settings"] == {"seed": 1, "temperature": 0, "top_p": 1}
    assert outcome.overrides["model"] == "small"
    assert outcome.overrides["active_tools"] == ("y",)


async def _step(workflow: Workflow, **settings: Any) -> Any:
    async with workflow.start() as run:
        return await run.process_input_step("hi", **settings)


def test_overrides_that_differ_are_a_conflict() -> None:
    """The field is named."""
    with pytest.raises(MergeConflictError, match="model"):
        _conflicting(Setting("a", model="small"), Setting("b", model="large"), "hi", "process_input_step")


def test_of_two_answers_the_first_declared_wins() -> None:
    """DESIGN §5: the first answer wins, in a parallel as in a sequence."""

    class Answering(Processor):
        def __init__(self, id: str) -> None:
            self.id = id

        def process_llm_request(self, ctx: Any) -> Answer:
            return Answer(self.id)

    workflow = Workflow("w").parallel(Answering("a"), Answering("b"), merge="first")
    assert workflow.check_sync("hi", stage="process_llm_request").answer == "a"
    assert (
        Workflow("w").then(Answering("a")).then(Answering("b")).check_sync("hi", stage="process_llm_request").answer
        == "a"
    )


def test_data_comes_in_declared_order() -> None:
    """Whoever wrote first."""

    def writing(name: str, turns: int) -> Processor[Any]:
        @processor("process_input", id=name, edits="nothing")
        async def step(ctx: InputContext) -> None:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            ctx.writer.write(Chunk("data-name", payload={"by": name}))

        return step

    outcome = anyio.run(Workflow("w").parallel(writing("a", 3), writing("b", 0)).check, "hi")
    assert [chunk.payload["by"] for chunk in outcome.data] == ["a", "b"]


# Tools' results


def hiding(id: str, path: Any, *edits: Edit) -> Processor[Any]:
    """A step that makes those edits in a tool's result."""

    @processor("process_tool_result", id=id, edits="spans")
    def step(ctx: ToolResultContext) -> TextEdits:
        return TextEdits({("result", *path): iter(edits)})

    return step


def test_who_settles_conflicts_about_a_key_sees_the_key() -> None:
    """As it was, and as each branch would have it."""
    seen: list[Any] = []

    def settle(conflict: Any) -> Any:
        seen.append((conflict.base, *conflict.values.values()))
        return conflict.values["two"]

    workflow = Workflow("w").parallel(
        hiding("one", [KeyText("ann")], Edit(0, 2, "X", "replace")),
        hiding("two", [KeyText("ann")], Edit(1, 3, "Y", "replace")),
        merge=settle,
    )
    assert workflow.check_sync({"ann": 1}, stage="process_tool_result").result == {"aY": 1}
    assert seen == [("ann", "Xn", "aY")]


def test_redactions_in_a_tools_result_merge_string_by_string() -> None:
    """Values, keys, and both at once; told as an iterator."""
    result = {"ann@example.com": {"phone": "555-1234 or 555-9876"}, "n": 1}
    workflow = Workflow("w").parallel(
        hiding("key", [KeyText("ann@example.com")], Edit(0, 15, "[MAIL]", "redact")),
        hiding("one", ["ann@example.com", "phone"], Edit(0, 8, "[P]", "redact")),
        hiding("two", ["ann@example.com", "phone"], Edit(12, 20, "[P]", "redact")),
    )
    outcome = workflow.check_sync(result, stage="process_tool_result")
    assert outcome.result == {"[MAIL]": {"phone": "[P] or [P]"}, "n": 1}
    assert "ann" not in repr(outcome.records)


def test_two_keys_that_become_one_both_stay() -> None:
    """The values are numbered, not lost."""
    workflow = Workflow("w").parallel(
        hiding("a", [KeyText("ann")], Edit(0, 3, "[N]", "redact")),
        hiding("b", [KeyText("bob")], Edit(0, 3, "[N]", "redact")),
    )
    outcome = workflow.check_sync({"ann": 1, "bob": 2}, stage="process_tool_result")
    assert sorted(outcome.result.values()) == [1, 2]
    assert "ann" not in repr(outcome.result)


def test_a_conflict_below_a_key_does_not_quote_the_key() -> None:
    """Keys are text: an error must not tell them."""
    workflow = Workflow("w").parallel(
        hiding("a", ["ann@example.com"], Edit(0, 2, "one", "replace")),
        hiding("b", ["ann@example.com"], Edit(0, 2, "two", "replace")),
    )
    outcome = workflow.check_sync({"ann@example.com": "555"}, stage="process_tool_result")
    assert outcome.blocked
    assert "ann@" not in str(outcome.failure) + repr(outcome.records)
    message = Message.user([ToolPart("c", "t", {}, "result", {"ann@example.com": "555"})])

    def rewriting(id: str) -> Processor[Any]:
        @processor("process_input", id=id, edits="spans")
        def step(ctx: InputContext) -> MessageList:
            (place,) = [p for p, text in ctx.message_list.texts() if text == "555"]
            return ctx.message_list.edit_text({place: [Edit(0, 2, id)]})

        return step

    outcome = Workflow("w").parallel(rewriting("a"), rewriting("b")).check_sync([message])
    assert outcome.blocked
    assert "ann@" not in str(outcome.failure) + repr(outcome.records)


@pytest.mark.parametrize(("was", "now"), [(1, True), (0, False), (1, 1.0)])
def test_a_change_to_an_equal_value_of_another_type_is_a_change(was: Any, now: Any) -> None:
    """1 == True in Python, but not in JSON."""

    @processor("process_tool_result", id="cast", edits="anything", role="transform")
    def cast(ctx: ToolResultContext) -> Any:
        return {"n": now}

    @processor("process_tool_result", id="idle", edits="nothing", role="transform")
    def idle(ctx: ToolResultContext) -> None:
        return None

    outcome = Workflow("w").parallel(cast, idle).check_sync({"n": was}, stage="process_tool_result")
    assert type(outcome.result["n"]) is type(now)


# Dags


def test_a_dag_carries_what_was_undone_behind_its_join() -> None:
    """What a later step took back stays taken back."""
    flag = Key[bool]("flag")

    def saying(id: str, value: bool) -> Processor[Any]:
        @processor("process_input", id=id, edits="nothing", provides=flag)
        def step(ctx: InputContext) -> None:
            ctx.put(flag, value)

        return step

    before = saying("before", value=False)
    workflow = (
        Workflow("w").then(before).dag(member(saying("a", value=True)), member(saying("b", value=False), after="a"))
    )
    assert workflow.check_sync("hi").fact(flag) is False


def test_a_message_added_and_removed_in_a_dag_is_gone() -> None:
    """The step that removed it saw it."""
    add = changing("add", lambda ctx: ctx.message_list.add(Message.user("new", id="new")))
    remove = changing("remove", lambda ctx: ctx.message_list.remove("new"))
    workflow = Workflow("w").dag(member(add), member(remove, after="add"), merge="last")
    assert [message.text for message in anyio.run(workflow.check, "hi").messages] == ["hi"]


def test_a_diamond_does_not_double_what_both_sides_inherited() -> None:
    """The first step's edits come once, with what each side added."""
    insert = {name: editing(name, Edit(0, 0, f"{name} ", "insert")) for name in "abcd"}
    workflow = Workflow("w").dag(
        member(insert["a"]),
        member(insert["b"], after="a"),
        member(insert["c"], after="a"),
        member(insert["d"], after=["b", "c"]),
    )
    outcome = workflow.check_sync("hi")
    assert outcome.blocked or outcome.text.count("a ") == 1


@pytest.mark.parametrize("merge", ["first", "last"])
def test_a_redaction_that_grew_into_other_words_is_not_let_go(merge: Any) -> None:
    """One branch says a stretch otherwise and then hides more than that; another says the stretch otherwise."""
    greets = editing("greets", Edit(0, 5, "HELLO"), role="transform")
    hides = editing("hides", Edit(3, 12, "[X]", "redact"), role="transform")
    other = editing("other", Edit(0, 2, "He"), role="transform")
    branches = (Workflow("both").then(greets).then(hides), other)
    workflow = Workflow("w").parallel(*(branches if merge == "last" else branches[::-1]), merge=merge)
    outcome = workflow.check_sync("hello secret word")
    assert "secret" not in outcome.text
    assert outcome.text.endswith(" word")


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (lambda conflict: conflict.values["b"], ["hi", "from b"]),
        (lambda conflict: Message.user("both", id="x"), ["hi", "both"]),
        (lambda conflict: None, ["hi"]),
    ],
)
def test_a_function_settles_two_messages_added_under_one_id(chosen: Any, left: list[str]) -> None:
    """It gives one of them, another, or none; nothing is lost silently."""
    adding = [
        changing(name, lambda ctx, name=name: ctx.message_list.add(Message.user(f"from {name}", id="x")))
        for name in ("a", "b")
    ]
    workflow = Workflow("w").parallel(*adding, merge=chosen)
    assert [message.text for message in anyio.run(workflow.check, "hi").messages] == left


def test_a_function_that_gives_no_message_where_one_was_added_has_failed() -> None:
    """The cure is told."""
    adding = [
        changing(name, lambda ctx, name=name: ctx.message_list.add(Message.user(f"from {name}", id="x")))
        for name in ("a", "b")
    ]
    with pytest.raises(StepFailedError, match="returns one Message"):
        anyio.run(Workflow("w").parallel(*adding, merge=lambda conflict: "text").check, "hi")
