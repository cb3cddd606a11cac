"""`TokenLimiterProcessor` on prompts: what stays, what goes, and what is told."""

import logging
from typing import Any

import anyio
import pytest

from penstock import Message, MessageList, OptionError, TextPart, TokenLimiterProcessor, ToolPart, Workflow
from penstock.engine import StepFailedError
from penstock.models.tokens import HeuristicCounter
from penstock.testing import run_stage

SYSTEM = "system"


def limiter(limit: int, **options: Any) -> TokenLimiterProcessor:
    """Return a limiter for which a text has as many tokens as characters: a message of three letters costs 7."""
    return TokenLimiterProcessor(limit, **{"token_counter": len, **options})


def talk(*said: str) -> list[Message]:
    """Return messages: `u:` is a user's, `a:` an assistant's, `s:` the system's; texts are ids, too."""
    roles = {"u": Message.user, "a": Message.assistant, "s": Message.system}
    return [roles[one[0]](one[2:], id=one[2:]) for one in said]


def kept(limit: int, messages: list[Message] | MessageList, stage: str = "process_input", **options: Any) -> list[str]:
    """Return the ids of what stays; of a verdict, its reason."""
    outcome = run_stage(
        limiter(limit, **options), stage, MessageList(messages) if isinstance(messages, list) else messages
    )
    assert outcome.tripwire is None, outcome.tripwire
    return [message.id for message in outcome.message_list.all]


def call(id: str, role: Any = Message.assistant, **fields: Any) -> Message:
    """Return a message with a tool's call, or its result."""
    return role([ToolPart("call-" + id.rstrip("'"), "t", **fields)], id=id)


# What fits


def test_all_stays_where_all_fits() -> None:
    """Three for the conversation, four and the text for each message."""
    messages = talk("u:abc", "a:def", "u:ghi")
    assert kept(24, messages) == ["abc", "def", "ghi"]
    assert kept(23, messages) == ["abc", "ghi"]
    assert kept(16, messages) == ["ghi"]


@pytest.mark.parametrize("stage", ["process_input", "process_input_step", "process_llm_request"])
def test_every_input_stage_keeps_the_limit(stage: str) -> None:
    """Order is kept; system messages stay and cost."""
    messages = talk("s:sys", "u:one", "a:two", "u:abc")
    assert kept(31, messages, stage) == ["one", "two", "abc"]
    assert kept(30, messages, stage) == ["one", "abc"]
    assert kept(17, messages, stage) == ["abc"]


def test_a_prompt_is_trimmed_for_one_call_only() -> None:
    """The history keeps what this call does without."""
    run = Workflow("w").then(limiter(20, side="prompt")).start_sync()
    run.process_output_step(MessageList(talk("u:one", "a:two", "u:abc")))
    assert [message.id for message in run.process_llm_request().message_list] == ["one", "abc"]
    assert len(run.process_output_step("more").message_list) == 4


def test_best_fit_skips_what_is_too_big_and_contiguous_stops_there() -> None:
    """The default is to look further back for what still fits."""
    messages = talk("u:old", "a:answer-that-is-long", "u:mid", "u:new")
    assert kept(24, messages) == ["old", "mid", "new"]
    assert kept(24, messages, trim_mode="contiguous") == ["mid", "new"]


# What belongs together


def test_an_answer_brings_its_question_along_or_goes() -> None:
    """Two answers to one question bring it once."""
    messages = talk("u:question-1", "a:yes", "u:q2", "a:no", "a:ok", "u:q3")
    assert kept(20, messages) == ["q2", "q3"]
    assert kept(26, messages) == ["q2", "ok", "q3"]
    assert kept(47, messages, trim_mode="contiguous") == ["q2", "no", "ok", "q3"]
    assert kept(48, messages, trim_mode="contiguous") == ["question-1", "yes", "q2", "no", "ok", "q3"]


@pytest.mark.parametrize("mode", ["best-fit", "contiguous"])
def test_a_call_and_its_result_stay_or_go_together(mode: str) -> None:
    """Wherever they stand, in one message or in two."""
    messages = [
        Message.user("a", id="a"),
        call("b"),
        call("b'", Message.tool, state="result", result="x" * 40),
        Message.user("c", id="c"),
    ]
    assert kept(70, messages, trim_mode=mode) in (["a", "c"], ["c"])
    assert kept(500, messages, trim_mode=mode) == ["a", "b", "b'", "c"]
    apart = [messages[0], messages[1], Message.user("approved", id="d"), messages[2], messages[3]]
    for limit in range(20, 140, 7):
        assert len({"b", "b'"} & set(kept(limit, apart, trim_mode=mode))) != 1


def test_results_belong_to_the_last_call_of_their_id() -> None:
    """Some providers number the calls of each turn anew."""
    turn = [call("b"), call("b'", Message.tool, state="result", result="x")]
    again = [message.with_metadata() for message in turn]
    messages = [Message.user("a", id="a"), *turn, Message.user("c", id="c")]
    later = [Message(m.role, m.parts, id=m.id + "2") for m in again]
    found = kept(60, [*messages, *later, Message.user("d", id="d")])
    assert found == ["a", "c", "b2", "b'2", "d"]


# What must stay


def test_the_newest_question_and_the_run_after_it_stay() -> None:
    """The tools' results of this run, too: without them the model would ask for them again."""
    messages = [*talk("u:old", "a:was", "u:new"), call("b"), call("b'", Message.tool, state="result", result="x")]
    assert kept(43, messages) == ["new", "b", "b'"]
    assert kept(44, messages) == ["old", "new", "b", "b'"]


def test_what_was_said_in_this_run_stays() -> None:
    """Even before a user message that came in between."""
    messages = (
        MessageList(talk("u:old", "u:mid")).add(talk("a:own"), source="response").add(talk("u:new"), source="input")
    )
    assert kept(18, messages) == ["own", "new"]


def test_pinned_messages_stay() -> None:
    """By their metadata, or by the option."""
    messages = talk("u:one", "u:two", "u:six", "u:new")
    pinned = [messages[0].with_metadata(pinned=True), *messages[1:]]
    assert kept(17, pinned) == ["one", "new"]
    assert kept(17, messages, pinned=lambda message: message.id == "two") == ["two", "new"]


def test_priorities_come_first() -> None:
    """Then the newest."""
    messages = talk("u:one", "u:two", "u:six", "u:new")
    messages[0] = messages[0].with_metadata(priority=1)
    assert kept(17, messages) == ["one", "new"]
    assert kept(24, messages) == ["one", "six", "new"]
    assert kept(17, messages, trim_mode="contiguous") == ["six", "new"]


# What cannot be


def tripped(limit: int, messages: list[Message], **options: Any) -> dict[str, Any]:
    """Return the metadata of the verdict."""
    outcome = run_stage(limiter(limit, **options), "process_input_step", MessageList(messages))
    assert outcome.tripwire is not None
    assert not outcome.tripwire.retry
    return dict(outcome.tripwire.metadata)


def test_a_question_that_does_not_fit_stops_the_run() -> None:
    """Rather than an old one being sent instead."""
    found = tripped(20, talk("s:sys", "u:a", "u:too-long-for-that"))
    assert found == {"system_tokens": 7, "limit": 20, "remaining_budget": 10, "message_count": 2}


def test_an_empty_prompt_is_never_sent() -> None:
    """No messages, system messages that leave no room, and nothing that fits."""
    assert tripped(20, talk("s:sys")) == {}
    assert tripped(10, talk("s:sys", "u:a")) == {"system_tokens": 7, "limit": 10}
    assert tripped(10, talk("a:too-long-for-that"))["remaining_budget"] == 7


# Memory


def remembered(*said: str) -> MessageList:
    """Return a list of what memory brought, and a new question."""
    return MessageList(talk(*said), source="memory").add(talk("u:new"), source="input")


def test_memory_only_frees_a_quarter_below_the_limit_from_the_oldest_on() -> None:
    """Answers go with their questions; under the limit, nothing does."""
    messages = remembered("u:one", "a:two", "u:six", "a:ten")
    assert kept(38, messages, trim_mode="memory-only") == ["one", "two", "six", "ten", "new"]
    assert kept(37, messages, trim_mode="memory-only") == ["six", "ten", "new"]
    assert kept(37, messages, trim_mode="memory-only", at_max_remove_tokens=0) == ["six", "ten", "new"]
    assert kept(37, messages, trim_mode="memory-only", at_max_remove_tokens=20) == ["new"]


def test_memory_only_leaves_everything_else_alone() -> None:
    """It may stay above the limit; calls that are not all memory's, and what is pinned, stay."""
    messages = remembered("u:one", "a:two")
    pinned = MessageList([m.with_metadata(pinned=True) for m in talk("u:one")], source="memory").add(talk("u:new"))
    assert kept(0, messages, "process_input_step", trim_mode="memory-only") == ["new"]
    assert kept(0, pinned, trim_mode="memory-only") == ["one", "new"]
    both = MessageList([call("b")], source="memory").add(call("b'", Message.tool, state="result"), source="input")
    assert kept(0, both, trim_mode="memory-only") == ["b", "b'"]
    assert limiter(9, trim_mode="memory-only").stages == ("process_input", "process_input_step")


# What is told


def test_what_was_dropped_is_told() -> None:
    """In the record and as a fact; never a text."""
    guard = limiter(24)
    outcome = run_stage(guard, "process_input", MessageList(talk("u:secret", "u:two", "u:new")))
    told = {"dropped": 1, "kept": 2, "tokens": 17}
    assert dict(outcome.records[0].details) == {**told, "limit": 24, "counter": "len"}
    assert dict(outcome.fact(guard.trimmed)) == {**told, "stage": "process_input"}


def test_callbacks_are_given_what_is_dropped() -> None:
    """With the request context; every mode calls `on_trim`."""
    told: list[Any] = []

    def note(messages: tuple[Message, ...], context: dict[str, Any]) -> None:
        told.append(([message.id for message in messages], dict(context)))

    kept(17, talk("u:one", "u:two", "u:new"), on_trim=note)
    kept(10, remembered("u:one"), trim_mode="memory-only", on_trim=note, on_memory_trim=note)
    assert told == [(["one"], {}), (["one"], {}), (["one"], {})]


async def test_callbacks_may_wait() -> None:
    """The hooks are async then."""
    told: list[str] = []

    async def note(messages: tuple[Message, ...], _: object) -> str:
        await anyio.lowlevel.checkpoint()
        told.extend(message.id for message in messages)
        return "gone"

    guard = limiter(60, on_trim=note, summarize=note)
    outcome = await Workflow("w").then(guard).check(MessageList(talk("u:" + "x" * 50, "u:new")))
    assert told == ["x" * 50] * 2
    assert [message.text for message in outcome.message_list] == ["new", "gone"]


def test_a_summary_stands_for_what_was_dropped() -> None:
    """As a system message of its own, within a tenth of the limit; the next one is told the last."""
    seen: list[list[str]] = []

    def summarize(messages: tuple[Message, ...], _: object) -> str:
        seen.append([message.text for message in messages])
        return f"({len(seen)})"

    run = Workflow("w").then(limiter(80, summarize=summarize)).start_sync()
    first = run.process_input(MessageList(talk("u:" + "x" * 70, "u:new")))
    assert [message.text for message in first.message_list.system] == ["(1)"]
    run.process_input(Message.user("y" * 40, id="y"))
    again = run.process_input(Message.user("z" * 30, id="z"))
    assert [message.text for message in again.message_list.system] == ["(2)"]
    assert seen == [["x" * 70], ["(1)", "y" * 40]]


def test_a_summary_that_is_no_text_is_a_failure() -> None:
    """It blocks: a budget that nobody keeps is none."""
    outcome = run_stage(
        limiter(20, summarize=lambda *_: 12), "process_input", MessageList(talk("u:one", "u:two", "u:new"))
    )
    assert outcome.blocked
    assert kept(20, talk("u:one", "u:two", "u:new"), summarize=lambda *_: None) == ["two", "new"]


# Counting


def test_parts_count_as_models_are_given_them() -> None:
    """Text and reasoning by their text, calls and results by their JSON, files by their size, data not at all."""
    guard = TokenLimiterProcessor(10, token_counter=len)
    parts = [ToolPart("c", "go", {"a": 1}, "result", {"b": 2})]
    assert guard._prompt.prices.kept(Message.assistant(parts, id="t")) == 4 + (4 + 2 + 7) + (4 + 7)
    assert guard._prompt.prices.kept(Message.assistant([TextPart("ab"), TextPart("c")], id="u")) == 7


def test_a_counter_may_count_whole_messages() -> None:
    """As the reference's token counters do."""

    class Counter:
        def count_message(self, message: Message) -> float:
            return 10.5 if message.role == "user" else 0

    messages = talk("u:one", "u:two", "u:new")
    assert kept(24, messages, token_counter=Counter()) == ["two", "new"]


@pytest.mark.parametrize("answer", [-1, float("nan"), "7", True])
def test_a_counter_of_messages_that_gives_nonsense_fails(answer: object) -> None:
    """Closed: the run stops."""

    class Counter:
        def count_message(self, _: Message) -> object:
            return answer

    assert run_stage(limiter(24, token_counter=Counter()), "process_input", "text").blocked


def test_a_message_that_changed_is_counted_again() -> None:
    """Prices are remembered by id, but only for an equal message."""
    guard = limiter(24)
    for text, fits in (("abc", True), ("x" * 90, False), ("abc", True)):
        outcome = run_stage(guard, "process_input", MessageList([Message.user(text, id="same")]))
        assert outcome.blocked is not fits


# Options


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("limit", -1),
        ("limit", True),
        ("limit", float("nan")),
        ("limit", "10"),
        ("limit", None),
        ("strategy", "cut"),
        ("count_mode", "chunk"),
        ("trim_mode", "worst"),
        ("side", "left"),
        ("counting", "odd"),
        ("cut_at", "line"),
        ("ellipsis", 3),
        ("encoding", "o300k"),
        ("token_counter", 12),
        ("at_max_remove_tokens", -1),
        ("at_max_remove_tokens", float("inf")),
        ("at_max_remove_tokens", True),
        ("at_max_remove_tokens", 101),
        ("on_trim", "f"),
        ("on_memory_trim", 1),
        ("on_memory_trim", print),
        ("summarize", 1),
        ("pinned", 1),
    ],
)
def test_a_wrong_option_is_refused(option: str, given: object) -> None:
    """With its name."""
    with pytest.raises(OptionError, match="TokenLimiterProcessor") as caught:
        TokenLimiterProcessor(**{"limit": 100, option: given})
    assert caught.value.option == option


def test_memory_only_has_nothing_to_do_with_answers() -> None:
    """So asking for it there is a mistake."""
    with pytest.raises(OptionError):
        TokenLimiterProcessor(10, trim_mode="memory-only", side="answer")


def test_what_it_declares_follows_from_its_options() -> None:
    """It fails closed, whatever it does; from prompts it only takes out, unless it writes summaries."""
    plain, guard = limiter(10), limiter(10, strategy="abort")
    assert (plain.role, plain.on_error, plain.edits) == ("transform", "block", "anything")
    assert (guard.role, guard.on_error) == ("guard", "block")
    assert limiter(10, side="prompt").edits == limiter(10, trim_mode="memory-only").edits == "spans"
    assert limiter(10, side="prompt", summarize=str).edits == "anything"
    assert limiter(10, side="prompt").stages == ("process_input", "process_input_step", "process_llm_request")
    assert limiter(10, side="answer").stages == ("process_output_stream", "process_output_result")


def test_limiters_with_equal_options_are_equal() -> None:
    """Whatever they remember."""
    first, second = limiter(20), limiter(20)
    run_stage(first, "process_input", "text")
    assert first == second != limiter(21)
    assert limiter(20, trim_mode="memory-only") == limiter(20, trim_mode="memory-only")


def test_it_stands_beside_others_that_edit_spans() -> None:
    """Taking messages out merges with whatever else edits."""
    flow = Workflow("w").parallel(limiter(17, side="prompt"), limiter(500, side="prompt", id="other"))
    assert len(flow.check_sync(MessageList(talk("u:one", "u:two", "u:new"))).messages) == 2


def test_a_counter_that_breaks_blocks(caplog: pytest.LogCaptureFixture) -> None:
    """And its text is not told."""
    with caplog.at_level(logging.WARNING):
        outcome = run_stage(limiter(5, token_counter=lambda text: 1 // 0), "process_input", "secret")
    assert outcome.blocked
    assert "secret" not in f"{outcome.tripwire} {outcome.records} {caplog.text}"
    with pytest.raises(StepFailedError):
        Workflow("w").then(limiter(5, token_counter=lambda text: 1 // 0), on_error="raise").check_sync("secret")


def test_the_reference_counts_are_on_demand() -> None:
    """24 a conversation, 3.8 a message, and 12 less for JSON."""
    guard = TokenLimiterProcessor(10, token_counter=HeuristicCounter(), counting="reference")
    costs = guard._prompt.prices
    assert (costs.costs.conversation, costs.kept(Message.user("Hello world", id="1"))) == (24, 6.8)
    sent = Message.assistant([ToolPart("c", "t", {})], id="2")
    assert costs.sent(sent) == pytest.approx(2 + 1 + 3.8 - 12)
