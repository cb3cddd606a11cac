"""LiteLLM's generic guardrail: requests, answers, and answers that stream, as LiteLLM puts them together."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import PIIDetector, Processor, RegexFilterProcessor, UnicodeNormalizer, Workflow
from penstock.engine import OutputResultContext
from penstock.engine.tasks import run_in_own_loop
from penstock.workflows.gateway.checks import litellm
from penstock.workflows.presets import hygiene, privacy
from tests.laws import examples
from tests.workflows.gateway.checks.served import BLOCKS, Checks, breaks, places, planted, policy

PATH = "/beta/litellm_basic_guardrail_api"
MAIL = "ann@example.com"
CALL = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": json.dumps({"to": MAIL})}}


async def ask(checks: Checks, kind: str, **body: Any) -> dict[str, Any]:
    """Return the answer about a request or a response."""
    answer: dict[str, Any] = await checks.ask(PATH, {"input_type": kind, "request_data": {}, **body})
    return answer


async def test_texts_of_a_request_come_back_edited(checks: Checks) -> None:
    """Where they are those of the rows, the rows are left to LiteLLM, which keeps what it did not send."""
    rows = [
        {"role": "system", "content": "Be nice"},
        {"role": "user", "content": [{"type": "text", "text": f"Mail {MAIL} now"}]},
    ]
    edited = {"action": "GUARDRAIL_INTERVENED", "texts": ["Be nice", "Mail [EMAIL] now"]}
    assert await ask(checks, "request", texts=["Be nice", f"Mail {MAIL} now"], structured_messages=rows) == edited
    assert await ask(checks, "request", texts=["Be nice", f"Mail {MAIL} now"]) == edited
    assert await ask(checks, "request", texts=["Be nice"]) == {"action": "NONE"}


async def test_what_stands_in_no_text_comes_back_in_its_row(checks: Checks) -> None:
    """Arguments of calls, names, parts that nobody knows."""
    rows = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "odd", "deep": [{"in": MAIL}]}]},
    ]
    said = await ask(checks, "request", texts=["Hi"], structured_messages=rows, tool_calls=[CALL])
    assert said["action"] == "GUARDRAIL_INTERVENED"
    assert said["structured_messages"][0] == rows[0]
    assert MAIL not in json.dumps(said["structured_messages"])


async def test_texts_that_are_not_those_of_the_rows_are_read_beside_them(checks: Checks) -> None:
    """As for Anthropic's requests, whose texts LiteLLM lists in another way."""
    rows = [{"role": "user", "content": "Hi"}]
    said = await ask(checks, "request", texts=["Hi", f"more {MAIL}"], structured_messages=rows)
    assert said == {"action": "GUARDRAIL_INTERVENED", "texts": ["Hi", "more [EMAIL]"]}


async def test_definitions_of_tools_are_read_at_any_depth(checks: Checks) -> None:
    """Names, descriptions, and the texts in a schema."""
    schema = {"type": "object", "properties": {"to": {"type": "string", "examples": [[{"a": MAIL}]]}}}
    tools = [{"type": "function", "function": {"name": "send", "description": "Sends", "parameters": schema}}]
    said = await ask(checks, "request", texts=["Hi"], tools=tools)
    assert said["tools"] == json.loads(json.dumps(tools).replace(MAIL, "[EMAIL]"))


async def test_calls_that_stand_in_no_row_are_blocked_if_they_would_be_edited(checks: Checks) -> None:
    """LiteLLM takes none back."""
    said = await ask(checks, "request", texts=["Hi"], tool_calls=[CALL])
    assert said == {"action": "BLOCKED", "blocked_reason": litellm.CHANGED_CALL_TEXT}
    answered = await ask(checks, "response", texts=["Hi"], tool_calls=[CALL])
    assert answered == said
    clean = {**CALL, "function": {"name": "send", "arguments": "{}"}}
    assert (await ask(checks, "response", texts=[], tool_calls=[clean]))["action"] == "NONE"


ROWS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be nice", "name": "app"},
    {"role": "developer", "content": "And brief"},
    {
        "role": "user",
        "name": "bob",
        "content": [
            {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png", "detail": "high"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="}},
            {"type": "odd", "deep": [{"er": ["x"]}]},
        ],
    },
    {
        "role": "assistant",
        "content": "Well",
        "refusal": "no",
        "reasoning_content": "hm",
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "sig"}],
        "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example/", "title": "A"}}],
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "send", "arguments": '{"a": "b"}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "sent", "name": "send"},
]
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "send",
            "description": "Sends",
            "parameters": {"type": "object", "properties": {"p": {"type": "string", "enum": ["e"]}}, "required": ["p"]},
        },
    },
    {"type": "web_search_preview", "user_location": {"city": "Paris"}},
    {"googleSearch": {"x": "y"}},
]
REQUEST: dict[str, Any] = {
    "texts": ["Be nice", "And brief", "Hi", "Well", "sent"],
    "structured_messages": ROWS,
    "images": ["https://x.example/a.png"],
    "tools": TOOLS,
    "tool_calls": ROWS[3]["tool_calls"],
}


@pytest.mark.parametrize("path", [*places(REQUEST), *[("odd", *path) for path in places(TOOLS)]], ids=str)
async def test_a_secret_in_any_field_of_a_request_is_found(path: tuple[Any, ...]) -> None:
    """It is edited in what LiteLLM takes back, or the request is blocked."""
    guards = policy(PIIDetector(redaction_method="placeholder", unscanned="allow"))
    clean = {"input_type": "request", **REQUEST}
    if path[0] == "odd":  # calls that LiteLLM lists beside those of the rows
        clean, path = {**clean, "tool_calls": TOOLS}, ("tool_calls", *path[1:])
    assert (await litellm.check(guards, clean)).body == {"action": "NONE"}
    said = (await litellm.check(guards, planted(clean, path, f"to {MAIL} now"))).body
    assert MAIL not in json.dumps(said)
    assert said["action"] == "BLOCKED" or "[EMAIL]" in json.dumps(said)


async def test_images_that_no_guard_reads_follow_the_policy(checks: Checks) -> None:
    """A guard blocks them, or is told to let them pass."""
    image = "https://images.example/a.png"
    for kind in ("request", "response"):
        checks.policy = policy(PIIDetector())
        assert (await ask(checks, kind, texts=["Hi"], images=[image]))["action"] == "BLOCKED"
        checks.policy = policy(PIIDetector(unscanned="allow"))
        assert (await ask(checks, kind, texts=["Hi"], images=[image]))["action"] == "NONE"


async def test_guards_of_the_last_message_read_what_the_user_said_last(checks: Checks) -> None:
    """Definitions of tools and images are no messages of theirs."""
    checks.policy = policy(PIIDetector(strategy="block", last_message_only=True, unscanned="allow"))
    rows = [{"role": "user", "content": "Hi"}, {"role": "user", "content": f"Mail {MAIL} now"}]
    more = {"tools": TOOLS, "images": ["https://images.example/b.png"]}
    for body in (
        {"texts": ["Hi", f"Mail {MAIL} now"]},
        {"texts": ["Hi", f"Mail {MAIL} now"], "structured_messages": rows},
    ):
        assert (await ask(checks, "request", **body, tools=TOOLS))["action"] == "BLOCKED"
    assert (await ask(checks, "request", texts=["Hi", f"Mail {MAIL} now"], **more))["action"] == "BLOCKED"


async def test_a_verdict_names_the_guard_and_not_the_reason(checks: Checks) -> None:
    """The reason may help an attacker."""
    checks.policy = policy(BLOCKS)
    for kind in ("request", "response"):
        said = await ask(checks, kind, texts=["about Globex"])
        assert said == {"action": "BLOCKED", "blocked_reason": "A guard has blocked this. (rivals)"}


async def test_what_breaks_or_cannot_be_read_blocks_with_the_status_200(checks: Checks) -> None:
    """So that it blocks also where LiteLLM is told to go on after errors."""
    checks.policy = policy(breaks)
    assert (await ask(checks, "request", texts=[MAIL]))["action"] == "BLOCKED"
    checks.policy = hygiene()
    rows: list[Any] = [{"role": "user", "content": {"odd": MAIL}}]
    said = await ask(checks, "request", texts=[], structured_messages=rows)
    assert said["action"] == "BLOCKED"
    assert MAIL not in said["blocked_reason"]
    for depth in (300, 3000):
        tools = b"[" * depth + b"]" * depth
        deep = await checks.ask(PATH, b'{"input_type": "request", "texts": ["Hi"], "tools": ' + tools + b"}")
        assert deep["action"] == "BLOCKED"
    large = await checks.ask(PATH, b" " * 1_000_001)
    assert large["action"] == "BLOCKED"


async def test_what_litellm_itself_sends_wrongly_is_refused_in_its_form(checks: Checks) -> None:
    """400, with what is wrong."""
    for body in ({"input_type": "both"}, {"input_type": "request", "texts": [1]}, {}):
        said = await checks.ask(PATH, body, 400)
        assert said["action"] == "BLOCKED"
        assert said["blocked_reason"]


async def test_each_choice_has_its_own_hold(checks: Checks) -> None:
    """One number a text, counted in the returned text."""
    texts = ["All is well here, so I am told by everybody", f"Mail {MAIL} and j", "Write to ann@exam"]
    said = await ask(checks, "response", texts=texts)
    held = said["stream_holdback_chars"]
    assert len(held) == len(said["texts"]) == 3
    left = [text[: len(text) - hold] for text, hold in zip(said["texts"], held, strict=True)]
    assert left[0]
    assert left[1].startswith("Mail [EMAIL] ")
    assert "ann@" not in left[2]


class Shouts(Processor[Any]):
    """Changes the answer after its stream."""

    id = "shouts"

    def process_output_result(self, ctx: OutputResultContext) -> Any:
        """Write capitals."""
        return ctx.message_list.map_text(str.upper, ctx.messages)


async def test_all_is_held_where_a_step_changes_the_answer_after_its_stream(checks: Checks) -> None:
    """What was released could not be taken back."""
    checks.policy = policy(PIIDetector(), Shouts())
    said = await ask(checks, "response", texts=["All is well here, so I am told by everybody"])
    assert said["texts"] == ["ALL IS WELL HERE, SO I AM TOLD BY EVERYBODY"]
    assert said["stream_holdback_chars"] == [len(said["texts"][0])]


SECRETS = (
    MAIL,
    "AKIAQ3R7MZ5T2W9KX4BN",
    "sk-ant-api03-" + "aB3x" * 20,
    "4111 1111 1111 1111",
    "+49 170 1234567",
    "DE89 3704 0044 0532 0130 00",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
)
PIECES = st.one_of(
    st.sampled_from(SECRETS),
    st.sampled_from(["mail ", "key: ", "token=", "ann@", " ", "\n", "ﬁ", "Ａ\u200b", "😀", '{"a": "', '"}', "sk-"]),
    st.text(max_size=12),
)
POLICIES = (
    hygiene(),
    privacy(),
    Workflow("parallel")
    .then(UnicodeNormalizer())
    .parallel(PIIDetector(), RegexFilterProcessor(presets=["secrets"], strategy="redact")),
)


@settings(max_examples=examples(150))
@given(st.sampled_from(POLICIES), st.lists(PIECES, min_size=1, max_size=12).map("".join), st.data())
def test_a_released_prefix_never_changes_and_the_end_is_the_whole_text(
    guards: Workflow, text: str, data: st.DataObject
) -> None:
    """Rounds over texts that are cut anywhere, put together as LiteLLM does."""
    cuts = data.draw(st.lists(st.integers(1, max(1, len(text))), max_size=6).map(sorted))

    async def rounds() -> tuple[str, str]:
        sent = returned = ""
        for cut in (*cuts, len(text)):
            reply = await litellm.check(guards, {"input_type": "response", "texts": [text[:cut]]})
            returned = reply.body.get("texts", [text[:cut]])[0]
            assert returned.startswith(sent), "what was sent has changed"
            sent = returned[: max(len(sent), len(returned) - reply.body["stream_holdback_chars"][0])]
        outcome = await guards.check(text, stage="process_output_result")
        return returned, outcome.text

    returned, whole = run_in_own_loop(rounds, "")
    assert returned == whole
    words = text.split()  # glued to other letters, some are none
    assert not [secret for secret in SECRETS if secret in words and secret in returned.split()]


async def test_text_leaves_while_the_answer_streams() -> None:
    """The hold is short, or nobody would stream."""
    text = "The quick brown fox jumps over the lazy dog. " * 20
    reply = await litellm.check(hygiene(), {"input_type": "response", "texts": [text]})
    assert reply.body["stream_holdback_chars"][0] < 120


@pytest.mark.parametrize("bare", ['{"input_type": "request", "texts": ["a"], "texts": ["b"]}', "[]", "{"])
async def test_bodies_that_are_no_object_are_refused(checks: Checks, bare: str) -> None:
    """A key that is there twice would be read by LiteLLM and by us in two ways."""
    assert (await checks.ask(PATH, bare.encode(), 400))["action"] == "BLOCKED"
