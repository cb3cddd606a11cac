"""`ToolCallFilter` as a step: what it takes out of a prompt, what it never takes, and what it leaves in its place."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock import Message, MessageList, OptionError, TextPart, ToolCallFilter, ToolPart, Workflow
from penstock.engine import FilePart, StepStartPart


def call(id: str, name: str = "search") -> ToolPart:
    """Return a call."""
    return ToolPart(id, name, {"q": id})


def result(id: str, value: Any = "r", name: str = "search", **more: Any) -> ToolPart:
    """Return a result."""
    return ToolPart(id, name, state="result", result=value, **more)


def failure(id: str, error: str = "broke", name: str = "search") -> ToolPart:
    """Return the result of a tool that failed."""
    return ToolPart(id, name, state="error", error=error)


def exchange(id: str, value: Any = "r", name: str = "search", **more: Any) -> list[Message]:
    """Return a call and its result, as providers have them."""
    return [Message.assistant([call(id, name)]), Message.tool([result(id, value, name, **more)])]


def shown(messages: list[Message], **options: Any) -> list[str]:
    """Return what a model is shown: roles and texts, calls as ``?id``, results as ``!id``."""
    outcome = Workflow("w").then(ToolCallFilter(**options)).check_sync(messages, stage="process_llm_request")
    return told(outcome.message_list)


def told(messages: MessageList) -> list[str]:
    """Return messages as short words."""

    def word(part: Any) -> str:
        if isinstance(part, ToolPart):
            return {"result": "!", "error": "x"}.get(part.state, "?") + part.call_id
        return part.text if isinstance(part, TextPart) else part.type

    return [f"{message.role[0]}:{' '.join(map(word, message.parts))}" for message in messages]


ASKED = [Message.user("a"), *exchange("c1"), Message.assistant("b"), Message.user("c")]


def test_old_calls_and_their_results_go_together() -> None:
    """What is said stays; messages left with nothing go."""
    messages = [Message.user("a"), Message.assistant([TextPart("see"), call("c1")]), Message.tool([result("c1")])]
    assert shown([*messages, Message.user("b")]) == ["u:a", "a:see", "u:b"]
    assert shown(ASKED) == ["u:a", "a:b", "u:c"]


def test_a_prompt_without_old_traffic_is_left_as_it_is() -> None:
    """Nothing is recorded as changed."""
    outcome = Workflow("w").then(ToolCallFilter()).check_sync("hi", stage="process_llm_request")
    assert outcome.records[0].status == "passed"


def test_the_record_tells_how_many_calls_were_taken_away() -> None:
    """A count, and no text."""
    outcome = Workflow("w").then(ToolCallFilter()).check_sync(ASKED, stage="process_llm_request")
    assert outcome.records[0].details == {"removed": 1}


def test_only_the_tools_named_are_filtered() -> None:
    """Both halves go by the call's id, whatever name the result bears."""
    messages = [
        Message.assistant([call("c1"), call("m1", "email")]),
        Message.tool([result("c1", name="other"), result("m1", name="email")]),
        Message.user("b"),
    ]
    assert shown(messages, exclude=["search"]) == ["a:?m1", "t:!m1", "u:b"]
    assert shown(messages, exclude=[]) == ["a:?c1 ?m1", "t:!c1 !m1", "u:b"]


def test_messages_of_user_and_system_are_never_touched() -> None:
    """Nor are attachments."""
    messages = [Message.system("s"), Message.user([FilePart(name="a")]), *exchange("c1"), Message.user("b")]
    assert shown(messages) == ["s:s", "u:file", "u:b"]


def test_what_a_request_adds_stays_for_the_whole_request() -> None:
    """The first prompt tells what is history; the conversation itself is never changed."""
    run = Workflow("w").then(ToolCallFilter()).start_sync()
    first, second = list(ASKED), [*ASKED, *exchange("c2")]
    assert told(run.process_llm_request(first).message_list) == ["u:a", "a:b", "u:c"]
    assert told(run.process_llm_request(second).message_list) == ["u:a", "a:b", "u:c", "a:?c2", "t:!c2"]
    assert told(run.process_llm_request([*second, *exchange("c3")]).message_list)[-4:] == [
        "a:?c2",
        "t:!c2",
        "a:?c3",
        "t:!c3",
    ]


def test_an_id_that_is_used_again_is_another_call() -> None:
    """Some providers count from zero with each answer."""
    run = Workflow("w").then(ToolCallFilter()).start_sync()
    run.process_llm_request(ASKED)
    assert told(run.process_llm_request([*ASKED, *exchange("c1", "new")]).message_list) == [
        "u:a",
        "a:b",
        "u:c",
        "a:?c1",
        "t:!c1",
    ]


def test_a_turn_that_goes_on_is_not_history() -> None:
    """A request that begins with results (a tool that waited for a person) keeps the turn they belong to."""
    going_on = [*ASKED, *exchange("c2"), *exchange("c3")]
    assert shown(going_on) == ["u:a", "a:b", "u:c", "a:?c2", "t:!c2", "a:?c3", "t:!c3"]


def test_the_latest_steps_stay_if_a_number_is_given() -> None:
    """Calls side by side are one step, in messages of their own or between marks of where a step begins."""
    messages = [
        *exchange("c1"),
        Message.assistant([call("c2"), call("c3")]),
        Message.tool([result("c2"), result("c3")]),
        *exchange("c4"),
        Message.user("b"),
    ]
    assert shown(messages, filter_after_tool_steps=2) == ["a:?c2 ?c3", "t:!c2 !c3", "a:?c4", "t:!c4", "u:b"]
    steps = [StepStartPart(), result("c1"), StepStartPart(), result("c2"), TextPart("x")]
    assert shown([Message.assistant(steps)], filter_after_tool_steps=1) == ["a:step-start step-start !c2 x"]


def test_the_step_that_the_model_is_in_the_middle_of_always_stays() -> None:
    """Even with a number of 0; not once it has been answered."""
    messages = [Message.user("a"), *exchange("c1"), *exchange("c2")]
    assert shown(messages, filter_after_tool_steps=0) == ["u:a", "a:?c2", "t:!c2"]
    assert shown([*messages, Message.assistant("x")], filter_after_tool_steps=0) == ["u:a", "a:x"]
    merged = [Message.user("a"), Message.assistant([result("c1"), StepStartPart(), result("c2")])]
    assert shown(merged, filter_after_tool_steps=0) == ["u:a", "a:step-start !c2"]


@pytest.mark.parametrize("state", ["partial", "call"])
def test_calls_that_were_never_answered_go_too(state: Any) -> None:
    """Whether their arguments were complete or not, with tools named or not."""
    messages = [Message.assistant([TextPart("x"), ToolPart("c1", "search", state=state)]), Message.user("b")]
    assert shown(messages) == shown(messages, exclude=["search"]) == ["a:x", "u:b"]


def test_calls_without_ids_are_paired_by_their_tool() -> None:
    """As the oldest chat format has them."""
    messages = [
        Message.assistant([call("", "search")]),
        Message.tool([result("", name="search")]),
        Message.assistant([call("", "email")]),
        Message.tool([result("", name="email")]),
        Message.user("b"),
    ]
    assert shown(messages, exclude=["search"]) == ["a:?", "t:!", "u:b"]


def test_failed_calls_can_be_kept() -> None:
    """So that the model does not try the same again."""
    messages = [*exchange("c1"), Message.assistant([call("c2")]), Message.tool([failure("c2")]), Message.user("b")]
    assert shown(messages, keep_errors=True) == ["a:?c2", "t:xc2", "u:b"]


def test_the_latest_calls_of_each_tool_can_be_kept() -> None:
    """One figure for all, or one for each tool."""
    messages = [*exchange("c1"), *exchange("m1", name="email"), *exchange("c2"), *exchange("c3"), Message.user("b")]
    assert shown(messages, keep_last=1) == ["a:?m1", "t:!m1", "a:?c3", "t:!c3", "u:b"]
    assert shown(messages, keep_last={"search": 2}) == ["a:?c2", "t:!c2", "a:?c3", "t:!c3", "u:b"]


MARK = {"metadata": {"mastra": {"modelOutput": True}}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (42, "42"),
        (True, "true"),
        ({"a": 1}, '{"a":1}'),
        (["a", {"type": "text", "text": "b"}, {"value": "c"}], "a\nb\nc"),
        ({"type": "text", "value": "é"}, "é"),
        ([{"type": "media", "data": "AAAA", "mediaType": "image/png"}, "x"], "[image/png]\nx"),
        ({"shots": [{"data": "AAAA", "mimeType": "image/png"}], "n": 1}, '{"shots":["[image/png]"],"n":1}'),
    ],
)
def test_the_text_of_marked_results_can_be_left_where_the_call_stood(value: Any, text: str) -> None:
    """As plain text; media are named, never quoted."""
    messages = [Message.assistant([TextPart("see"), call("c1")]), *exchange("c1", value, **MARK)[1:], Message.user("b")]
    assert shown(messages, preserve_model_output=True) == [f"a:see search result:\n{text}", "u:b"]


@pytest.mark.parametrize("value", ["", None, []])
def test_a_result_that_says_nothing_leaves_nothing(value: Any) -> None:
    """Not even its tool's name."""
    assert shown([*exchange("c1", value, **MARK), Message.user("b")], preserve_model_output=True) == ["u:b"]


def test_the_tools_whose_results_are_left_as_text_can_be_named() -> None:
    """Then no mark is needed; failures are left as text too."""
    messages = [*exchange("c1"), Message.assistant([call("m1", "email")]), Message.tool([failure("m1", "no", "email")])]
    left = shown([*messages, Message.user("b")], preserve_model_output=["email"])
    assert left == ["a:email result:\nno", "u:b"]
    assert shown([*exchange("c1"), Message.user("b")], preserve_model_output=True) == ["u:b"]


def test_a_redacted_result_is_left_as_it_was_redacted() -> None:
    """The mark's own copy of the output, which no guard reads, is not looked at."""
    marked = {"metadata": {"mastra": {"modelOutput": {"type": "text", "value": "secret"}}}}
    messages = [*exchange("c1", "[gone]", **marked), Message.user("b")]
    assert shown(messages, preserve_model_output=True) == ["a:search result:\n[gone]", "u:b"]


def test_a_preserved_result_without_its_call_stands_behind_the_tool_messages() -> None:
    """An assistant's message must not part a call from its results."""
    messages = [
        Message.assistant([call("m1", "email")]),
        Message.tool([result("c1", "lost", **MARK)]),
        Message.tool([result("m1", name="email")]),
        Message.user("b"),
    ]
    left = shown(messages, preserve_model_output=True, exclude=["search"])
    assert left == ["a:?m1", "t:!m1", "a:search result:\nlost", "u:b"]
    assert shown(messages[1:2], preserve_model_output=True, filter_after_tool_steps=0) == ["t:!c1"]


def test_long_results_can_be_shortened_instead() -> None:
    """A stub names the id; short ones and those that the model has not seen stay."""
    messages = [*exchange("c1", "x" * 500), *exchange("c2", "short"), Message.user("b"), *exchange("c3", "y" * 500)]
    workflow = Workflow("w").then(ToolCallFilter(max_result_size=100))
    outcome = workflow.check_sync(messages, stage="process_llm_request")
    parts = [part for message in outcome.messages for part in message.parts]
    results = [part.result for part in parts if isinstance(part, ToolPart) and part.state == "result"]
    assert results == ["[result c1 left out, 500 characters]", "short", "y" * 500]
    assert outcome.records[0].details == {"shortened": 1}
    again = workflow.check_sync(outcome.message_list, stage="process_llm_request")
    assert again.message_list == outcome.message_list


def test_a_result_is_measured_as_told() -> None:
    """By any function from a text to a size; a stub that would be no shorter is not used."""
    messages = [*exchange("c1", "a b c"), Message.assistant([call("c2")]), Message.user("b")]
    assert shown(messages, max_result_size=0) == ["a:?c1", "t:!c1", "a:?c2", "u:b"]
    workflow = Workflow("w").then(ToolCallFilter(max_result_size=3, token_counter=lambda text: text.count("a")))
    long = [Message.assistant([call("c1")]), Message.tool([failure("c1", "a" * 9)]), Message.user("b")]
    outcome = workflow.check_sync(long, stage="process_llm_request")
    assert outcome.messages[1].parts[0].error == "[result c1 left out, 9 tokens]"


def test_a_shortened_result_can_be_had_again() -> None:
    """The processor answers the tool named; other tools are not its business."""
    filter_ = ToolCallFilter(max_result_size=100, recall="read_result")
    run = Workflow("w").then(filter_).start_sync()
    history = [Message.user("a"), *exchange("c1", "x" * 500), Message.tool([failure("c2")]), Message.user("b")]
    run.process_input(MessageList(history))
    stub = run.process_llm_request().messages[2].parts[0].result
    assert stub == "[result c1 left out, 500 characters; call read_result with its id to read it]"
    ask = run.process_tool_call
    assert ask("read_result", {"id": "c1"}).answer == "x" * 500
    assert ask("read_result", {"id": "c2"}).answer == "broke"
    assert ask("read_result", {"id": "c9"}).answer == "There is no result of that id."
    assert ask("search", {"id": "c1"}).answer is None


def test_the_conversation_itself_can_be_filtered() -> None:
    """Once, memory included; sources stay what they are."""
    listed = MessageList(ASKED[:3], source="memory").add([*exchange("c2"), Message.user("c")], source="input")
    outcome = Workflow("w").then(ToolCallFilter(scope="history")).check_sync(listed)
    assert told(outcome.message_list) == ["u:a", "u:c"]
    assert [entry.source for entry in outcome.message_list.entries] == ["memory", "input"]
    assert told(Workflow("w").then(ToolCallFilter(scope="history")).check_sync(ASKED[:3]).message_list)[1:] == [
        "a:?c1",
        "t:!c1",
    ]


def test_a_conversation_of_nothing_but_old_calls_becomes_empty() -> None:
    """That is said on purpose, so it is no failure."""
    messages = [Message.assistant([call("c1")]), Message.assistant([call("c2")])]
    assert shown(messages) == []


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: ToolCallFilter(exclude="search"), "exclude"),
        (lambda: ToolCallFilter(exclude=[1]), "exclude"),  # type: ignore[list-item]
        (lambda: ToolCallFilter(filter_after_tool_steps=-1), "filter_after_tool_steps"),
        (lambda: ToolCallFilter(filter_after_tool_steps=True), "filter_after_tool_steps"),
        (lambda: ToolCallFilter(filter_after_tool_steps=1.5), "filter_after_tool_steps"),  # type: ignore[arg-type]
        (lambda: ToolCallFilter(preserve_model_output="search"), "preserve_model_output"),
        (lambda: ToolCallFilter(preserve_model_output=True, max_result_size=1), "preserve_model_output"),
        (lambda: ToolCallFilter(keep_errors=1), "keep_errors"),  # type: ignore[arg-type]
        (lambda: ToolCallFilter(keep_last=-1), "keep_last"),
        (lambda: ToolCallFilter(keep_last={"search": "2"}), "keep_last"),  # type: ignore[dict-item]
        (lambda: ToolCallFilter(max_result_size=-1), "max_result_size"),
        (lambda: ToolCallFilter(token_counter=3), "token_counter"),  # type: ignore[arg-type]
        (lambda: ToolCallFilter(scope="memory"), "scope"),  # type: ignore[arg-type]
        (lambda: ToolCallFilter(exclude=3), "exclude"),  # type: ignore[arg-type]
        (lambda: ToolCallFilter(recall="read"), "recall"),
        (lambda: ToolCallFilter(recall=3, max_result_size=9), "recall"),  # type: ignore[arg-type]
        (lambda: ToolCallFilter(recall="read", max_result_size=9, scope="history"), "recall"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(make: Callable[[], object], option: str) -> None:
    """With its name, when the processor is made."""
    with pytest.raises(OptionError) as caught:
        make()
    assert (caught.value.processor, caught.value.option) == ("ToolCallFilter", option)


def test_equal_options_make_equal_filters() -> None:
    """And an id of one's own is taken."""
    assert ToolCallFilter(exclude=["a", "b"]) == ToolCallFilter(exclude=["b", "a"])
    assert ToolCallFilter(id="mine").id == "mine"
