"""`TokenLimiterProcessor` on prompts: what stays, what goes, and what is told."""

import itertools
import logging
import random
from typing import Any

import anyio
import pytest

from penstock import Message, MessageList, OptionError, TextPart, TokenLimiterProcessor, ToolPart, Workflow
from penstock.engine import StepFailedError
from penstock.models.tokens import HeuristicCounter
from penstock.testing import run_stage
from tests.laws import seeds

SYSTEM = "system"


def limiter(limit: int, **options: Any) -> TokenLimiterProcessor:
    """Return a limiter for which a text has as many tokens as characters: a message of three letters costs 7."""
    return TokenLimiterProcessor(limit, **{"token_counter": len, **options})


def talk(*said: str) -> list[Message]:
    """Return messages: `u:` is a user's, `a:` an assistant's, `s:` the system's; texts are ids, too."""
    roles = {"u": Message.user, "a": Message.assistant, "s": Message.system}
    return [roles[one[0]](one[2:], id=one[2:]) for one in said]


def kept(
    limit: int, messages: list[Message] | MessageList, stage: str = "process_llm_request", **options: Any
) -> list[str]:
    """Return the ids of what stays; of a verdict, its reason."""
    options.setdefault("scope", "prompt" if stage == "process_llm_request" else "history")
    outcome = run_stage(
        limiter(limit, **options), stage, MessageList(messages) if isinstance(messages, list) else messages
    )
    assert outcome.tripwire is None, outcome.tripwire
    return [message.id for message in outcome.message_list.conversation]


def call(id: str, role: Any = Message.assistant, **fields: Any) -> Message:
    """Return a message with a tool's call, or its result."""
    return role([ToolPart("call-" + id.rstrip("'"), "t", **fields)], id=id)


# What fits


def test_all_stays_where_all_fits() -> None:
    """Three for the conversation, four and the text for each message."""
    messages = talk("u:abc", "a:def", "u:ghi")
    assert kept(24, messages) == ["abc", "def", "ghi"]
    assert kept(23, messages) == ["ghi"]
    assert kept(17, talk("u:abc", "u:def", "u:ghi")) == ["def", "ghi"]


@pytest.mark.parametrize("stage", ["process_input", "process_input_step", "process_llm_request"])
def test_every_input_stage_keeps_the_limit(stage: str) -> None:
    """Order is kept; system messages stay and cost."""
    messages = talk("s:sys", "u:one", "a:two", "u:abc")
    assert kept(31, messages, stage) == ["one", "two", "abc"]
    assert kept(30, messages, stage) == ["abc"]
    assert kept(17, messages, stage) == ["abc"]


def test_a_prompt_is_trimmed_for_one_call_only() -> None:
    """The history keeps what this call does without."""
    run = Workflow("w").then(limiter(20, side="prompt")).start_sync()
    run.process_output_step(MessageList(talk("u:one", "u:two", "u:abc")))
    assert [message.id for message in run.process_llm_request().message_list] == ["two", "abc"]
    assert len(run.process_output_step("more").message_list) == 4


def test_best_fit_skips_what_is_too_big_and_contiguous_stops_there() -> None:
    """The default is to look further back for what still fits."""
    messages = talk("u:old", "u:question-that-is-long", "u:mid", "u:new")
    assert kept(24, messages) == ["old", "mid", "new"]
    assert kept(24, messages, trim_mode="contiguous") == ["mid", "new"]


# What belongs together


def test_questions_and_answers_stay_or_go_together() -> None:
    """Two answers to one question belong to it both; what comes before the first question stands alone."""
    messages = talk("u:question-1", "a:yes", "u:q2", "a:no", "a:ok", "u:q3")
    for mode in ("best-fit", "contiguous"):
        assert kept(20, messages, trim_mode=mode) == ["q3"]
        assert kept(26, messages, trim_mode=mode) == ["q3"]
        assert kept(27, messages, trim_mode=mode) == ["q2", "no", "ok", "q3"]
        assert kept(47, messages, trim_mode=mode) == ["q2", "no", "ok", "q3"]
        assert kept(50, messages, trim_mode=mode) == ["question-1", "yes", "q2", "no", "ok", "q3"]
        assert kept(21, talk("a:one", "a:two", "u:q"), trim_mode=mode) == ["two", "q"]


@pytest.mark.parametrize("mode", ["best-fit", "contiguous"])
def test_a_call_and_its_result_stay_or_go_together(mode: str) -> None:
    """Wherever they stand, in one message or in two."""
    messages = [
        Message.user("a", id="a"),
        call("b"),
        call("b'", Message.tool, state="result", result="x" * 40),
        Message.user("c", id="c"),
    ]
    assert kept(70, messages, trim_mode=mode) == ["c"]
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
    assert found == ["c", "b2", "b'2", "d"]


# What must stay


def test_the_newest_question_and_the_run_after_it_stay() -> None:
    """The tools' results of this run, too: without them the model would ask for them again."""
    messages = [*talk("u:old", "a:was", "u:new"), call("b"), call("b'", Message.tool, state="result", result="x")]
    assert kept(43, messages) == ["new", "b", "b'"]
    assert kept(50, messages) == ["new", "b", "b'"]
    assert kept(51, messages) == ["old", "was", "new", "b", "b'"]


def exchange(number: int, size: int = 20) -> list[Message]:
    """Return a call with its result; together they cost as many tokens as the result has characters, and 26."""
    return [call(f"{number}"), call(f"{number}'", Message.tool, state="result", result="x" * size)]


def test_a_tool_loop_that_grows_over_the_limit_loses_its_oldest_exchanges() -> None:
    """The newest stays: the model has not seen it yet. What is older than the question goes before."""
    loop = [*talk("u:old", "a:was", "u:new"), *exchange(1), *exchange(2), *exchange(3)]
    whole = ["old", "was", "new", "1", "1'", "2", "2'", "3", "3'"]
    found = {tuple(kept(limit, loop, trim_mode="contiguous")): limit for limit in range(400, 55, -1)}
    assert list(found) == [tuple(whole), tuple(whole[2:]), ("new", *whole[5:]), ("new", *whole[7:])]
    assert tripped(55, loop)["message_count"] == 9


def test_an_exchange_in_the_middle_of_a_loop_does_not_go_before_older_ones() -> None:
    """The model would see what it found first and last, and look for the rest again."""
    loop = [*talk("u:new"), *exchange(1, 1), *exchange(2, 500), *exchange(3, 1)]
    assert kept(200, loop) == ["new", "3", "3'"]


def test_results_that_the_model_has_not_seen_stay() -> None:
    """All of a step's, in whichever messages its calls stand; and calls without a result."""
    step = [call("1"), call("2"), *(call(f"{n}'", Message.tool, state="result", result="x" * 50) for n in (1, 2))]
    assert tripped(120, [*talk("u:new"), *step])["message_count"] == 5
    waiting = [*talk("u:new"), call("0"), *exchange(1), *exchange(2)]
    assert kept(100, waiting) == ["new", "0", "2", "2'"]


def test_a_user_message_of_a_processor_is_no_question() -> None:
    """The newest one that the caller sent is; the others of the turn stay beside it."""
    loop = MessageList([*talk("u:old", "u:ask"), *exchange(1)], source="input").add(talk("u:note"), source="context")
    assert kept(70, loop) == ["ask", "1", "1'", "note"]
    assert kept(30, MessageList(talk("u:one", "a:two"), source="memory")) == ["one", "two"]


def test_an_old_turn_may_lose_tool_exchanges_before_it_is_skipped() -> None:
    """Its question and how it ended stay; an answer within the message of its call goes with it."""
    talked = [*talk("u:ask"), *exchange(1, 5), *exchange(2, 90), *talk("a:end", "u:new")]
    assert kept(400, talked) == ["ask", "1", "1'", "2", "2'", "end", "new"]
    assert kept(60, talked) == ["ask", "1", "1'", "end", "new"]
    assert kept(40, talked) == ["ask", "end", "new"]
    assert kept(40, talked, trim_mode="contiguous") == ["new"]
    assert kept(23, talked) == ["new"]
    ended = [*talk("u:ask"), *exchange(1, 5), *exchange(2, 90), *talk("u:new")]
    assert kept(100, ended) == ["new"]


def test_a_pinned_message_brings_its_exchange_along() -> None:
    """A pinned answer its question, and the other way round."""
    messages = talk("u:one", "a:two", "u:six", "u:new")
    for place in (0, 1):
        pinned = [message.with_metadata(pinned=at == place) for at, message in enumerate(messages)]
        assert kept(24, pinned) == ["one", "two", "new"]


def conversation(draw: random.Random) -> list[Message]:
    """Return a random conversation: turns of texts, tool exchanges in one message or in several, and loose calls."""
    made: list[Message] = []
    for turn in range(draw.randrange(1, 5)):
        if turn or draw.random() < 0.8:
            made.append(Message.user("u" * draw.randrange(30), id=f"u{turn}"))
        for step in range(draw.randrange(4)):
            name = f"{turn}-{step}"
            kind = draw.choice(["text", "exchange", "parallel", "whole", "waiting"])
            if kind == "text":
                made.append(Message.assistant("a" * draw.randrange(30), id=name))
            elif kind == "whole":
                made.append(call(name, state="result", result="r" * draw.randrange(60)))
            else:
                names = [name] if kind != "parallel" else [name, name + "b"]
                made += [call(one) for one in names]
                answered = [] if kind == "waiting" else names
                result = "r" * draw.randrange(60)
                made += [call(one + "'", Message.tool, state="result", result=result) for one in answered]
    return made or [Message.user("u", id="u")]


@pytest.mark.parametrize("mode", ["best-fit", "contiguous"])
@pytest.mark.parametrize("seed", seeds(range(60)))
def test_no_exchange_is_ever_left_half(seed: int, mode: Any) -> None:
    """Whatever the conversation and the limit are: calls, results, questions, answers, and the newest question."""
    draw = random.Random(seed)  # noqa: S311 - a test
    messages = conversation(draw)
    last = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    for limit in range(4, 300, 17):
        outcome = run_stage(limiter(limit, trim_mode=mode), "process_llm_request", MessageList(messages))
        if outcome.tripwire is not None:
            continue
        stays = {message.id for message in outcome.messages}
        assert last < 0 or messages[last].id in stays
        for message in messages:
            if message.id.endswith("'"):
                assert (message.id in stays) == (message.id[:-1] in stays)
        for at, message in enumerate(messages[: max(last, 0)]):
            if message.role != "user":
                continue
            answers = [one.id for one in itertools.takewhile(lambda one: one.role != "user", messages[at + 1 :])]
            texts = [one for one in answers if not one.endswith("'")]
            assert not answers or (message.id in stays) == (answers[-1] in stays) >= any(one in stays for one in texts)
        assert sum(map(limiter(limit)._prompt.prices.sent, outcome.messages)) + 3 <= limit


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
    outcome = run_stage(limiter(limit, **options), "process_llm_request", MessageList(messages))
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
    assert limiter(9, trim_mode="memory-only").stages == ("process_llm_request",)
    assert kept(0, remembered("u:one", "a:two"), "process_input_step", trim_mode="memory-only") == ["new"]


# What is told


def test_what_was_dropped_is_told() -> None:
    """In the record and as a fact; never a text."""
    guard = limiter(24)
    outcome = run_stage(guard, "process_llm_request", MessageList(talk("u:secret", "u:two", "u:new")))
    told = {"dropped": 1, "kept": 2, "tokens": 17}
    assert dict(outcome.records[0].details) == {**told, "limit": 24, "counter": "len"}
    assert dict(outcome.fact(guard.trimmed)) == {**told, "stage": "process_llm_request"}


def test_the_record_names_the_counter_whatever_fits() -> None:
    """So that an estimate is not taken for a count."""
    outcome = run_stage(TokenLimiterProcessor(900), "process_llm_request", "hello")
    assert dict(outcome.records[0].details) == {"limit": 900, "counter": "o200k_base"}


def test_callbacks_get_each_message_once_in_a_request() -> None:
    """The next call's prompt lacks the same messages again; the summary of them is used again."""
    told: list[str] = []

    def summarize(messages: tuple[Message, ...], _: object) -> str:
        told.extend(message.id for message in messages)
        return "gone"

    run = Workflow("w").then(limiter(60, summarize=summarize)).start_sync()
    run.process_input(MessageList(talk("u:" + "x" * 50, "u:new")))
    for _ in range(3):
        assert [message.text for message in run.process_llm_request().messages] == ["gone", "new"]
    assert told == ["x" * 50]


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
    outcome = (
        await Workflow("w").then(guard).check(MessageList(talk("u:" + "x" * 50, "u:new")), stage="process_llm_request")
    )
    assert told == ["x" * 50] * 2
    assert [message.text for message in outcome.message_list] == ["new", "gone"]


def test_a_summary_stands_for_what_was_dropped() -> None:
    """As a system message of its own, within a tenth of the limit; the next one is told the last."""
    seen: list[list[str]] = []

    def summarize(messages: tuple[Message, ...], _: object) -> str:
        seen.append([message.text for message in messages])
        return f"({len(seen)})"

    run = Workflow("w").then(limiter(80, summarize=summarize, scope="history")).start_sync()
    first = run.process_input(MessageList(talk("u:" + "x" * 70, "u:new")))
    assert [message.text for message in first.message_list.system] == ["(1)"]
    run.process_input(Message.user("y" * 40, id="y"))
    again = run.process_input(Message.user("z" * 30, id="z"))
    assert [message.text for message in again.message_list.system] == ["(2)"]
    assert seen == [["x" * 70], ["(1)", "y" * 40]]


def test_a_summary_that_is_no_text_is_a_failure() -> None:
    """It blocks: a budget that nobody keeps is none."""
    outcome = run_stage(
        limiter(20, summarize=lambda *_: 12), "process_llm_request", MessageList(talk("u:one", "u:two", "u:new"))
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

    assert run_stage(limiter(24, token_counter=Counter()), "process_llm_request", "text").blocked


def test_a_message_that_changed_is_counted_again() -> None:
    """Prices are remembered by id, but only for an equal message."""
    guard = limiter(24)
    for text, fits in (("abc", True), ("x" * 90, False), ("abc", True)):
        outcome = run_stage(guard, "process_llm_request", MessageList([Message.user(text, id="same")]))
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
    assert limiter(10, side="prompt").stages == ("process_llm_request",)
    assert limiter(10, side="prompt", scope="history").stages == ("process_input", "process_input_step")
    assert limiter(10, side="answer").stages == ("process_output_stream", "process_output_result")


def test_limiters_with_equal_options_are_equal() -> None:
    """Whatever they remember."""
    first, second = limiter(20), limiter(20)
    run_stage(first, "process_llm_request", "text")
    assert first == second != limiter(21)
    assert limiter(20, trim_mode="memory-only") == limiter(20, trim_mode="memory-only")


def test_it_stands_beside_others_that_edit_spans() -> None:
    """Taking messages out merges with whatever else edits."""
    flow = Workflow("w").parallel(limiter(17, side="prompt"), limiter(500, side="prompt", id="other"))
    assert len(flow.check_sync(talk("u:one", "u:two", "u:new"), stage="process_llm_request").messages) == 2


def test_a_counter_that_breaks_blocks(caplog: pytest.LogCaptureFixture) -> None:
    """And its text is not told."""
    with caplog.at_level(logging.WARNING):
        outcome = run_stage(limiter(5, token_counter=lambda text: 1 // 0), "process_llm_request", "secret")
    assert outcome.blocked
    assert "secret" not in f"{outcome.tripwire} {outcome.records} {caplog.text}"
    with pytest.raises(StepFailedError):
        Workflow("w").then(limiter(5, token_counter=lambda text: 1 // 0), on_error="raise").check_sync(
            "secret", stage="process_llm_request"
        )


def test_the_reference_counts_are_on_demand() -> None:
    """24 a conversation, 3.8 a message, and 12 less for JSON."""
    guard = TokenLimiterProcessor(10, token_counter=HeuristicCounter(), counting="reference")
    costs = guard._prompt.prices
    assert (costs.costs.conversation, costs.kept(Message.user("Hello world", id="1"))) == (24, 6.8)
    sent = Message.assistant([ToolPart("c", "t", {})], id="2")
    assert costs.sent(sent) == pytest.approx(2 + 1 + 3.8 - 12)
