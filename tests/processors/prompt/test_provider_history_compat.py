"""`ProviderHistoryCompat` as a step: what it repairs before a call, and after an error once; rules of one's own."""

import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest

from penstock import (
    Message,
    MessageList,
    ModelError,
    OptionError,
    ProviderHistoryCompat,
    Retry,
    TextPart,
    ToolPart,
    Workflow,
    parse_messages,
    processor,
)
from penstock.engine import DataPart, ReasoningPart, StepStartPart, UnknownPart
from penstock.engine.processor.context import APIErrorContext
from penstock.processors.prompt import HistoryRule, Recipient
from penstock.testing import ScriptedModel

REFUSED = ModelError(
    "m", "it said no", status=400, body="messages.1.content.0.tool_use.id: String should match pattern"
)
ANTHROPIC = "anthropic:claude-opus-4-6"
ASKED, AGAIN = Message.user("a"), Message.user("c")


def sent(messages: Sequence[Message], model: Any = ANTHROPIC, **options: Any) -> list[str]:
    """Return what a model is sent: roles, and the kinds of parts with what they say."""
    run = Workflow("w").then(ProviderHistoryCompat(**options)).start_sync()
    outcome = run.process_llm_request(MessageList(messages, source="memory"), model=model)
    return told(outcome.message_list)


def told(messages: MessageList) -> list[str]:
    """Return messages as short words."""

    def word(part: Any) -> str:
        return part.call_id if isinstance(part, ToolPart) else getattr(part, "text", part.type)

    return [f"{message.role[0]}:{' '.join(map(word, message.parts))}" for message in messages]


def thought(text: str, **metadata: Any) -> ReasoningPart:
    """Return reasoning, with what a provider wants back."""
    return ReasoningPart(text, metadata)


def of_pydantic(provider: str, **notes: Any) -> dict[str, Any]:
    """Return metadata as pydantic-ai's parts have them here."""
    return {"pydantic-ai": {"provider_name": provider, **notes}}


# Before a call


def test_a_provider_without_rules_is_sent_the_conversation_as_it_is() -> None:
    """Nothing is taken from whom nothing has to be taken."""
    messages = [ASKED, Message.assistant([thought("t"), TextPart("b")]), AGAIN]
    assert sent(messages, "mistral/large") == sent(messages, None) == ["u:a", "a:t b", "u:c"]


def test_a_model_is_known_by_its_name() -> None:
    """Models tell who they are; several may stand in for each other."""
    messages = [ASKED, Message.assistant([thought("t"), TextPart("b")]), AGAIN]
    cerebras = ScriptedModel(["x"], name="cerebras/glm")
    assert sent(messages, cerebras) == sent(messages, ("openai/gpt-5", cerebras)) == ["u:a", "a:b", "u:c"]


def test_the_conversation_keeps_what_a_prompt_leaves_out() -> None:
    """The next call may go to another provider."""
    run = Workflow("w").then(ProviderHistoryCompat()).start_sync()
    run.process_input(MessageList([ASKED, Message.assistant([thought("t"), TextPart("b")]), AGAIN], source="memory"))
    assert told(run.process_llm_request(model="cerebras/glm").message_list) == ["u:a", "a:b", "u:c"]
    assert told(run.message_list) == ["u:a", "a:t b", "u:c"]


def test_thoughts_that_pydantic_ai_keeps_are_told_apart_by_their_provider() -> None:
    """Claude's own stay, sealed ones and redacted ones too; another's go, whatever form they have."""
    own = thought("own", **of_pydantic("anthropic", signature="s"))
    redacted = thought("", **of_pydantic("anthropic", id="redacted_thinking", signature="s"))
    empty = thought("", **of_pydantic("anthropic", signature="s"))
    foreign = thought("foreign", **of_pydantic("openai", id="rs_1"))
    sealed = UnknownPart({"part_kind": "thinking", "provider_name": "openai", "signature": "x"})
    noted = UnknownPart({"type": "reasoning.encrypted"}, {"openai-chat": {"field": "reasoning_details"}})
    parts = [own, redacted, empty, foreign, sealed, noted, TextPart("b")]
    assert sent([ASKED, Message.assistant(parts), AGAIN]) == ["u:a", "a:own  b", "u:c"]


def test_a_signature_in_an_answer_of_another_provider_is_not_anthropics() -> None:
    """The answer's stamp says who made it."""
    signed = [thought("t", anthropic={"signature": "s"}), TextPart("b")]
    stamped = Message.assistant(signed).with_metadata(provider="kimi.messages")
    noted = Message.assistant(signed).with_metadata(**of_pydantic("moonshotai"))
    relayed = Message.assistant(signed).with_metadata(provider="vertex.anthropic.messages")
    assert sent([ASKED, stamped, AGAIN, noted, AGAIN, relayed, AGAIN])[1::2] == ["a:b", "a:b", "a:t b"]


@pytest.mark.parametrize("rest", [[], [Message.tool([ToolPart("c1", "t", state="result")])]])
def test_the_answer_whose_tools_have_just_run_keeps_its_thoughts(rest: list[Message]) -> None:
    """Anthropic wants them back as they were; results may stand in the answer itself."""
    call = ToolPart("c1", "t") if rest else ToolPart("c1", "t", state="result")
    messages = [ASKED, Message.assistant([thought("t"), call, StepStartPart()]), *rest]
    assert sent(messages)[1] == "a:t c1 step-start"
    assert sent([*messages, AGAIN])[1] == "a:c1 step-start"


def test_an_answer_that_only_looks_for_its_end_keeps_nothing() -> None:
    """A turn is open where a tool has answered; words at the end are none."""
    assert sent([ASKED, Message.assistant([thought("t"), TextPart("b")])]) == ["u:a", "a:b"]
    called = Message.assistant([ToolPart("c1", "t")])
    assert sent([ASKED, called, Message.tool([ToolPart("c1", "t", state="result")])]) == ["u:a", "a:c1", "t:c1"]


def test_a_message_is_never_left_empty() -> None:
    """What no provider is sent does not keep it either."""
    aside = [StepStartPart(), DataPart("x", 1)]
    assert sent([ASKED, Message.assistant([thought("t"), *aside]), AGAIN], "cerebras/glm") == ["u:a", "u:c"]


def test_a_prompt_is_never_left_empty() -> None:
    """A model is not called with nothing."""
    assert sent([Message.assistant([thought("t")])], "cerebras/glm") == ["a:t"]


@pytest.mark.parametrize(
    ("model", "stays"),
    [
        ("openai/gpt-5", True),
        ("azure:gpt-5", True),
        (ANTHROPIC, False),
        ("google-gla:gemini-3-pro", False),
        ("mistral/large", False),
        ("openrouter/openai/gpt-5", True),
        ("fallback:anthropic:claude-opus-4-6,openai:gpt-5", True),
        ("gateway/anthropic:claude-opus-4-6", False),
        (None, True),
    ],
)
def test_what_a_provider_ran_itself_goes_only_where_it_is_foreign(model: str | None, stays: bool) -> None:
    """The call and its result; a gateway may relay to whom they come from, and who is not known may be it."""
    hosted = {"type": "web", "toolCallId": "w1", "toolName": "web", "providerExecuted": True}
    options = {"providerOptions": {"openai": {"itemId": "ws_1"}}}
    (answer,) = parse_messages(
        [
            {
                "role": "assistant",
                "content": [
                    {**hosted, **options, "type": "tool-call", "input": {}},
                    {**hosted, "type": "tool-result", "output": {"type": "json", "value": []}},
                    {"type": "text", "text": "b"},
                ],
            }
        ],
        "ai-sdk-model",
    )
    kinds = ("builtin-tool-call", "builtin-tool-return")
    noted = [UnknownPart({"part_kind": kind, "provider_name": "openai", "tool_call_id": "x1"}) for kind in kinds]
    own = ToolPart("c1", "mine", state="result", metadata={"openai": {"itemId": "fc_1"}})
    messages = [ASKED, answer, Message.assistant([*noted, own, TextPart("d")]), AGAIN]
    left = ["a:w1 w1 b", "a:unknown unknown c1 d"] if stays else ["a:b", "a:c1 d"]
    assert sent(messages, model)[1:3] == left


def test_azure_is_not_shown_tags_that_it_takes_for_an_attack() -> None:
    """Only tags, and only where system and user speak."""
    said = "<system-reminder>x</system-reminder> system-reminder <system-reminders>"
    messages = [Message.system(said), Message.user([TextPart(said), DataPart("x", 1)]), Message.assistant(said)]
    renamed = "<memory-context>x</memory-context> system-reminder <system-reminders>"
    assert sent(messages, "azure/gpt-5") == [f"s:{renamed}", f"u:{renamed} data", f"a:{said}"]
    assert sent([ASKED], "azure/gpt-5") == ["u:a"]


def test_the_record_names_the_rules_and_no_text() -> None:
    """Who reads records learns what was done, not what was said."""
    run = Workflow("w").then(ProviderHistoryCompat()).start_sync(records=True)
    run.process_llm_request([ASKED, Message.assistant([thought("t"), TextPart("b")])], model="cerebras/glm")
    assert dict(run.records[0].details) == {"rules": ("cerebras-strip-reasoning-content",)}


# After an error


def refused(error: Exception, *ids: str, **options: Any) -> tuple[bool, list[str]]:
    """Return whether a call is made again after an error, and the calls of the conversation then."""
    workflow = Workflow("w").then(ProviderHistoryCompat(**options))
    run = workflow.start_sync()
    calls = [ToolPart(id, "t", state="result", result=1) for id in ids]
    run.process_input(MessageList([ASKED, Message.assistant(calls)], source="memory"))
    outcome = run.process_api_error(error)
    return bool(outcome.retry), told(outcome.message_list)[1:]


def test_ids_that_anthropic_refuses_are_renamed_and_stay_different() -> None:
    """By a hash of the id alone, so that it is the same in every request; good ids stay as they are."""
    retried, (answer,) = refused(REFUSED, "a.1", "a:1", "ok_1", "")
    one, other, good, none = answer.removeprefix("a:").split(" ")
    assert retried
    assert (good, none) == ("ok_1", "")
    assert one != other
    assert all(re.fullmatch(r"a_1_[0-9a-f]{8}", id) for id in (one, other))
    assert refused(REFUSED, "a.1")[1] == [f"a:{one}"]


def test_a_renamed_id_is_no_longer_than_providers_take() -> None:
    """64 characters."""
    _, (answer,) = refused(REFUSED, "x." * 100)
    assert len(answer.removeprefix("a:")) == 64


def test_calls_and_results_are_renamed_alike() -> None:
    """Wherever they stand, history included; and the change stays for the run."""
    run = Workflow("w").then(ProviderHistoryCompat()).start_sync()
    result = Message.tool([ToolPart("a.1", "t", state="result")])
    run.process_input(MessageList([ASKED, Message.assistant([ToolPart("a.1", "t")]), result], source="memory"))
    assert run.process_api_error(REFUSED).retry
    _, call, answer = told(run.message_list)
    assert call[2:] == answer[2:] != "a.1"


@pytest.mark.parametrize(
    "error",
    [
        ModelError("m", "tool_result.tool_use_id: String should match pattern '^[a-z]+$'"),
        ModelError("m", "1 validation error: toolUseId failed: Member must satisfy regular expression pattern: [a-z]+"),
        RuntimeError("tool_use.id: String should match pattern"),
    ],
)
def test_the_error_may_say_it_in_any_of_its_forms(error: Exception) -> None:
    """Results have ids too, Bedrock has words of its own, and a model may raise what it likes."""
    assert refused(error, "a.1")[0]


def test_the_cause_of_an_error_may_say_it() -> None:
    """Whoever wraps an error keeps its cause; one that says nothing of it is not read."""
    wrapped, hidden = RuntimeError("it failed"), RuntimeError("it failed")
    wrapped.__cause__ = REFUSED
    hidden.__context__, hidden.__suppress_context__ = REFUSED, True
    assert (refused(wrapped, "a.1")[0], refused(hidden, "a.1")[0]) == (True, False)


def test_causes_in_a_circle_come_to_an_end() -> None:
    """An error may be its own cause's cause."""
    one, other = RuntimeError("a"), RuntimeError("b")
    one.__cause__, other.__cause__ = other, one
    assert refused(one, "a.1") == (False, ["a:a.1"])


def test_a_conversation_in_which_nothing_is_wrong_is_not_sent_again() -> None:
    """The same request would fail again."""
    assert refused(REFUSED, "ok") == (False, ["a:ok"])
    assert refused(ModelError("m", "overloaded"), "a.1") == (False, ["a:a.1"])


def test_a_call_is_repaired_once() -> None:
    """What the repair has not cured it will not cure the second time."""
    grows = HistoryRule("grows", fix=lambda messages: [*messages, Message.user("x")], error_patterns=["no"])
    run = Workflow("w").then(ProviderHistoryCompat(additional_rules=[grows])).start_sync()
    run.process_input([ASKED])
    assert run.process_api_error(ModelError("m", "no")).retry
    assert not run.process_api_error(ModelError("m", "no")).retry
    assert told(run.message_list) == ["u:a", "u:x"]


def test_a_call_is_repaired_although_it_was_made_again_for_another_reason() -> None:
    """First too many requests, then an id that is refused."""

    @processor("process_api_error", id="again")
    def again(ctx: APIErrorContext) -> Retry | None:
        return Retry() if isinstance(ctx.error, TimeoutError) else None

    run = Workflow("w").then(ProviderHistoryCompat()).then(again).start_sync()
    run.process_input(MessageList([ASKED, Message.assistant([ToolPart("a.1", "t")])], source="memory"))
    assert run.process_api_error(TimeoutError()).retry
    assert run.process_api_error(REFUSED).retry
    assert told(run.message_list)[1].startswith("a:a_1_")
    assert not run.process_api_error(REFUSED).retry


ORPHAN = ModelError("m", "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'.")


def test_references_to_items_without_reasoning_go() -> None:
    """OpenAI's, Azure's, and those that pydantic-ai keeps; what else stands there stays, and other providers' stay."""
    metadata = [
        {"openai": {"itemId": "m1", "other": 1}},
        {"azure": {"itemId": "m2"}},
        of_pydantic("openai", id="m3"),
        of_pydantic("anthropic", id="m4"),
        {"google": {"itemId": "m5"}},
        {"openai": "no mapping"},
    ]
    whole = Message.assistant([thought("t", openai={"itemId": "rs_1"}), TextPart("b", {"openai": {"itemId": "m6"}})])
    bare = Message.assistant([TextPart(str(place), given) for place, given in enumerate(metadata)])
    run = Workflow("w").then(ProviderHistoryCompat()).start_sync()
    run.process_input(MessageList([ASKED, bare, whole], source="memory"))
    outcome = run.process_api_error(ORPHAN)
    assert outcome.retry
    kept = [dict(part.metadata) for part in outcome.message_list.conversation[1].parts]
    assert kept == [{"openai": {"other": 1}}, {}, of_pydantic("openai"), *metadata[3:]]
    assert outcome.message_list.conversation[2].parts == whole.parts


# Rules of one's own


def shout(prompt: tuple[Message, ...], recipient: Recipient) -> list[Message] | None:
    """Write in capitals for one provider."""
    if not recipient.is_any("acme"):
        return None
    return [message.with_parts([TextPart(message.text.upper())]) for message in prompt]


def test_rules_can_be_added_and_left_out() -> None:
    """The table is open, at both ends."""
    messages = [ASKED, Message.assistant([thought("t"), TextPart("b")])]
    own = HistoryRule("shout", shout)
    assert sent(messages, "acme/one", additional_rules=[own]) == ["u:A", "a:B"]
    assert sent(messages, "cerebras/glm", disabled_rules=["cerebras-strip-reasoning-content"]) == ["u:a", "a:t b"]


def test_a_rule_may_repair_what_its_provider_says() -> None:
    """Patterns may be strings, of which letter cases do not count, or compiled."""
    dropped = HistoryRule("short", fix=lambda messages: messages[:1], error_patterns=["too LONG", re.compile("Full")])
    for text in ("Too long.", "Full"):
        assert refused(ModelError("m", text), "c1", additional_rules=[dropped]) == (True, [])
    assert refused(ModelError("m", "full"), "c1", additional_rules=[dropped]) == (False, ["a:c1"])


def test_a_rule_that_breaks_lets_the_prompt_pass_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """It protects nothing; the log says so, without the text."""

    def broken(prompt: tuple[Message, ...], _recipient: Recipient) -> None:
        raise ValueError(prompt[0].text)

    with caplog.at_level(logging.WARNING, "penstock"):
        assert sent([Message.user("secret")], additional_rules=[HistoryRule("broken", broken)]) == ["u:secret"]
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda: ProviderHistoryCompat(additional_rules=["x"]), "additional_rules"),
        (lambda: ProviderHistoryCompat(additional_rules=1), "additional_rules"),
        (lambda: ProviderHistoryCompat(disabled_rules=["azure"]), "disabled_rules"),
        (lambda: ProviderHistoryCompat(disabled_rules="azure"), "disabled_rules"),
        (lambda: HistoryRule(""), "name"),
        (lambda: HistoryRule("x"), "fix"),
        (lambda: HistoryRule("x", fix=lambda messages: None), "error_patterns"),
        (lambda: HistoryRule("x", shout, error_patterns=["a"]), "error_patterns"),
        (lambda: HistoryRule("x", fix=lambda messages: None, error_patterns="a"), "error_patterns"),
        (lambda: HistoryRule("x", fix=lambda messages: None, error_patterns=["("]), "error_patterns"),
        (lambda: HistoryRule("x", fix=lambda messages: None, error_patterns=[1]), "error_patterns"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(make: Any, option: str) -> None:
    """The error names the option."""
    with pytest.raises(OptionError) as caught:
        make()
    assert caught.value.option == option


def test_processors_with_equal_options_are_equal() -> None:
    """As all values of a workflow are."""
    assert ProviderHistoryCompat() == ProviderHistoryCompat()
    assert ProviderHistoryCompat(id="x") != ProviderHistoryCompat()
    assert "additional_rules" in repr(ProviderHistoryCompat())
