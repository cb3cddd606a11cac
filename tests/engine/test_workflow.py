"""Whether a workflow is a value that can be built, compared, nested, named, checked and started."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import (
    BlockedError,
    InputContext,
    Message,
    MessageList,
    OptionError,
    OutputStepContext,
    Processor,
    RegexFilterProcessor,
    Workflow,
    WorkflowError,
    member,
    processor,
)
from penstock.engine import DagEdge, Policy, StepFailedError, UsageError
from penstock.engine.graph.nodes import children, resolve, steps_of


class Say(Processor):
    """Adds its word to the text."""

    def __init__(self, word: str) -> None:
        self.word = word

    def process_input(self, ctx: InputContext) -> MessageList:
        """Add it."""
        return ctx.message_list.map_text(lambda text: f"{text} {self.word}")


def always(_: Any) -> bool:
    """Hold."""
    return True


def test_a_workflow_does_not_change() -> None:
    """Each call returns a new one."""
    empty = Workflow("w")
    one = empty.then(Say("a"))
    assert (empty, one) == (Workflow("w"), Workflow("w").then(Say("a")))
    assert empty != one
    with pytest.raises(AttributeError, match="is immutable, so name"):
        one.name = "other"
    with pytest.raises(TypeError):
        hash(one)


def test_workflows_compare_by_name_and_graph() -> None:
    """Processors, policies, conditions, merges."""

    def made(**changes: Any) -> Workflow:
        given = {"name": "w", "word": "a", "timeout": 1, "when": always, "merge": None, **changes}
        return (
            Workflow(given["name"])
            .then(Say(given["word"]), timeout=given["timeout"])
            .branch((given["when"], Say("b")), otherwise=Say("c"))
            .parallel(Say("d"), Say("e"), merge=given["merge"])
            .dag(member(Say("f"), id="f"), member(Say("g"), after={"f": always}))
        )

    assert made() == made()
    for change in ({"name": "v"}, {"word": "z"}, {"timeout": 2}, {"when": lambda _: True}, {"merge": "first"}):
        assert made() != made(**change)
    assert made() != "w"
    assert made(name="v").named("w") == made()


def test_a_workflow_shows_its_steps() -> None:
    """And prints as the diagram."""
    workflow = Workflow("w").then(Say("a"), id="hello").parallel(Say("b"), Workflow("inner").then(Say("c")))
    assert repr(workflow) == "<Workflow 'w': hello, say, say>"
    assert "hello" in str(workflow)
    assert workflow.draw("mermaid")


def test_steps_run_in_the_order_they_were_placed() -> None:
    """Nested workflows as if they stood there."""
    inner = Workflow("inner").then(Say("b")).branch((always, Say("c")))
    workflow = Workflow("w").then(Say("a")).then(inner).then(Workflow("d").then(Say("d")))
    assert workflow.check_sync("text").text == "text a b c d"


def test_paths_are_unique() -> None:
    """Ids that nobody set are numbered in declared order; nested ones stand under their workflow."""
    inner = Workflow("in").then(Say("a")).then(Say("b"))
    workflow = Workflow("w").then(Say("a")).parallel(Say("b"), inner).then(inner).branch((always, Say("c")))
    root = resolve(workflow.root)
    assert [step.path for step in steps_of(root)] == [
        "say",
        "say#2",
        "in/say",
        "in/say#2",
        "in#2/say",
        "in#2/say#2",
        "say#3",
    ]
    assert [child.path for child in children(root)] == ["say", "parallel", "in#2", "branch"]
    odd = Workflow("w").then(Say("a"), id="x#2").then(Say("a"), id="x").then(Workflow("x").then(Say("a")))
    assert len({node.path for node in children(resolve(odd.root))}) == 3


@pytest.mark.parametrize("name", ["", "  ", "a/b", 3])
def test_a_name_that_cannot_be_is_refused(name: Any) -> None:
    """Of a workflow, and of a step."""
    with pytest.raises(UsageError, match="non-empty str without '/'"):
        Workflow(name)
    if name:
        with pytest.raises(UsageError, match="an id must be"):
            Workflow("w").then(Say("a"), id=name)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda w: w.parallel(), "parallel\\(\\) needs at least one"),
        (lambda w: w.branch(), "branch\\(\\) needs at least one arm"),
        (lambda w: w.branch(Say("a")), "arm 0 of branch\\(\\) must be a pair"),
        (lambda w: w.branch((always, Say("a"), 3)), "arm 0"),
        (lambda w: w.branch((always, Say("a")), (3, Say("a"))), "arm 1"),
        (lambda w: w.dag(), "dag\\(\\) needs at least one member"),
        (lambda w: w.dag(Say("a")), "dag\\(\\) takes members"),
        (lambda w: w.dag(member(Say("a")), merge="sequence"), "one after another, give them after="),
        (lambda w: w.then(Say("a"), attempts=3), "unknown policy option attempts; use one of timeout, on_error"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused_at_once(build: Any, words: str) -> None:
    """With what would be right."""
    with pytest.raises(UsageError, match=words):
        build(Workflow("w"))


@pytest.mark.parametrize(
    "build",
    [
        lambda w: w.then(Say("a"), timeout=0),
        lambda w: w.then(Say("a"), timeout=-1),
        lambda w: w.then(Say("a"), timeout="1"),
        lambda w: w.then(Say("a"), timeout=float("nan")),
        lambda w: w.then(Say("a"), on_error="ignore"),
        lambda w: w.then(Say("a"), mode="dark"),
        lambda w: w.then(Say("a"), overlap="tools"),
        lambda w: w.then(Say("a"), offload="process"),
        lambda w: w.parallel(Say("a"), merge="random"),
        lambda w: w.branch((always, Say("a")), match="some"),
        lambda w: w.branch((always, Say("a")), on_error="allow"),
    ],
)
def test_a_word_that_is_not_allowed_is_refused_at_once(build: Any) -> None:
    """The error says which are."""
    with pytest.raises(OptionError):
        build(Workflow("w"))


def test_policies_and_edges_are_values() -> None:
    """They may be made by hand."""
    assert Policy(timeout=1.5).mode == "enforce"
    by_name = member(Say("a"), after="b")
    assert by_name == member(Say("a"), after=["b"]) == member(Say("a"), after=DagEdge("b"))
    assert member(Say("a"), after={"b": always}).after == (DagEdge("b", always),)
    assert member(Workflow("inner").then(Say("a"))).id == "inner"


def test_a_graph_goes_out_and_comes_back() -> None:
    """As networkx knows it."""
    workflow = Workflow("w").dag(member(Say("a"), id="a"), member(Say("b"), id="b", after={"a": always}))
    assert Workflow.from_graph(workflow.graph).check_sync("text").text == "text a b"


# Checking


@pytest.mark.parametrize(
    "given",
    [
        "hi",
        Message.user("hi"),
        [Message.user("hi")],
        (message for message in [Message.user("hi")]),
        MessageList("hi"),
        {"role": "user", "content": "hi"},
        [{"role": "user", "content": "hi"}],
    ],
    ids=["str", "message", "list", "iterator", "message-list", "dict", "dicts"],
)
def test_text_comes_in_any_form(given: Any) -> None:
    """A plain string is a user message."""
    outcome = Workflow("w").then(Say("there")).check_sync(given)
    assert (outcome.text, outcome.messages[0].role) == ("hi there", "user")


async def test_check_and_check_sync_agree() -> None:
    """Inside a running loop too, with records unless they are not wanted."""
    workflow = Workflow("w").then(Say("a"))
    one, other = workflow.check_sync("hi"), await workflow.check("hi")
    assert (one.text, len(one.records)) == (other.text, len(other.records)) == ("hi a", 1)
    assert one.unwrap() is one
    assert (await workflow.check("hi", records=False)).records == ()
    assert workflow.check_sync("hi", records=False).records == ()


@pytest.mark.parametrize("records", [True, False])
def test_an_outcome_says_whether_something_was_edited(records: bool) -> None:
    """In one line, without a text; so do those of tool calls and of streams."""
    edited, not_edited = Workflow("w").then(Say("a")), Workflow("w")
    assert repr(edited.check_sync("hi", records=records)) == "Outcome(process_input, edited)"
    assert repr(not_edited.check_sync("hi", records=records)) == "Outcome(process_input, passed)"
    guard = Workflow("w").then(RegexFilterProcessor([{"name": "a", "pattern": "a+"}], strategy="redact"))
    run = guard.start_sync(records=records)
    assert repr(run.process_tool_call("tool", {"to": "aa"})) == "Outcome(process_tool_call, edited)"
    assert repr(run.process_tool_call("tool", {"to": "bb"})) == "Outcome(process_tool_call, passed)"
    for pieces, how in ((["a", "a"], "edited"), (["b", "b"], "passed")):
        with guard.start_sync(records=records).process_output_stream(pieces) as stream:
            assert list(stream)
        assert repr(stream.outcome) == f"Outcome(process_output_stream, {how})"


def test_a_blocked_outcome_unwraps_to_an_error() -> None:
    """The failure behind it is the cause."""

    @processor(on_error="block")
    def broken(ctx: InputContext) -> None:
        raise ValueError

    @processor("process_input", id="stop")
    def stop(ctx: InputContext) -> None:
        ctx.abort("because")

    with pytest.raises(BlockedError, match="blocked by 'stop' in process_input: because") as caught:
        Workflow("w").then(stop).check_sync("hi").unwrap()
    assert caught.value.tripwire.reason == "because"
    outcome = Workflow("w").then(broken).check_sync("hi")
    assert "blocked" in repr(outcome)
    with pytest.raises(BlockedError) as caught:
        outcome.unwrap()
    assert isinstance(caught.value.__cause__, StepFailedError)
    assert isinstance(caught.value.__cause__.__cause__, ValueError)


def test_a_graph_with_problems_does_not_start() -> None:
    """Nor is it checked, in either form."""
    workflow = Workflow("w").then(Say("a"), id="a").then(Say("b"), id="a")
    for use in (
        workflow.start,
        workflow.start_sync,
        lambda: workflow.check_sync("hi"),
        lambda: anyio.run(workflow.check, "hi"),
    ):
        with pytest.raises(WorkflowError):
            use()


def test_a_stage_that_is_none_is_refused() -> None:
    """In sync form as well."""
    with pytest.raises(UsageError, match="unknown stage 'process'"):
        Workflow("w").then(Say("a")).check_sync("hi", stage="process")


async def test_a_sync_hook_can_be_moved_off_the_loop() -> None:
    """And stopped, or rather left behind, by a timeout."""
    workflow = Workflow("w").then(Say("a"), offload="thread", timeout=5)
    assert (await workflow.check("hi")).text == "hi a"
    with pytest.raises(UsageError, match="async steps"):
        workflow.check_sync("hi")


def test_async_steps_are_checked_in_a_loop_of_their_own_where_none_runs() -> None:
    """So that a script may check with guards that ask a model."""
    outcome = Workflow("w").then(Say("a"), offload="thread", timeout=5).check_sync("hi", stage="input")
    assert outcome.text == "hi a"
    assert [record.status for record in outcome.records] == ["edited"]


class Slowly(Processor):
    """Reads what comes in off the loop, and waits for answers."""

    edits = "nothing"

    def process_input(self, ctx: InputContext) -> None:
        """Look."""

    async def process_output_step(self, ctx: OutputStepContext) -> None:
        """Look."""


def test_a_timeout_for_all_holds_for_those_off_the_loop_too() -> None:
    """Beside one that waits, and so can be stopped by itself."""
    node = Workflow("w").parallel(Say("a"), Slowly(), timeout=2, offload="thread").root.nodes[0]
    assert [step.policy.timeout for step in children(node)] == [2, 2]  # type: ignore[union-attr]


async def test_a_verdict_given_off_the_loop_holds() -> None:
    """The signal crosses the thread."""

    @processor
    def stop(ctx: InputContext) -> None:
        ctx.abort("no")

    assert (await Workflow("w").then(stop, offload="thread").check("hi")).blocked


def test_a_condition_that_turns_out_to_wait_is_refused_in_sync_form() -> None:
    """It looked sync, and was not."""

    class Later:
        def __await__(self) -> Any:
            yield

    workflow = Workflow("w").branch((lambda _: Later(), Say("a")))
    with pytest.raises(UsageError, match="await it instead"):
        workflow.check_sync("hi")
