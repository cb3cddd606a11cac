"""Whether answers in every dialect become the same chunks; it knows no connection."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from penstock import Message, ToolPart
from penstock.engine import MessageError, ModelRequest, ReasoningPart
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import AudioPart, UnknownPart
from penstock.models.openai.providers import ANY, PROVIDERS
from penstock.models.openai.reading import AnswerReader
from penstock.models.openai.requests import body_of
from penstock.models.openai.wire import parsed
from tests.laws import examples

ANSWER_KEYS = {
    "annotations",
    "arguments",
    "audio",
    "choices",
    "content",
    "custom",
    "data",
    "delta",
    "finish_reason",
    "function",
    "function_call",
    "id",
    "image_url",
    "images",
    "index",
    "input",
    "message",
    "name",
    "prompt_tokens",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "refusal",
    "text",
    "thinking",
    "thinking_blocks",
    "tool_calls",
    "transcript",
    "type",
    "url",
    "usage",
}


def chunks(*deltas: dict[str, Any], **last: Any) -> list[Chunk]:
    """Return the chunks of an answer that comes in these deltas."""
    reader = AnswerReader()
    items = [{"id": "a", "model": "m", "created": 1, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    items.append({"choices": [{"delta": {}, "finish_reason": "stop"}], **last})
    return [*(chunk for item in items for chunk in reader.read(item)), *reader.end()]


def shown(found: list[Chunk]) -> list[Any]:
    """Return what the chunks say, without starts and ends."""
    return [
        (chunk.type, chunk.text or thaw(chunk.payload))
        for chunk in found
        if not chunk.type.endswith(("-start", "-end")) and chunk.type not in ("response-metadata", "finish")
    ]


def message(found: list[Chunk]) -> Message:
    """Return the message that chunks make."""
    answer = Assembly()
    for chunk in found:
        answer.add(chunk)
    return answer.message


def back(found: list[Chunk], provider: str = "") -> dict[str, Any]:
    """Return an answer as it goes back to a provider."""
    (sent,) = body_of(ModelRequest((message(found),)), "m", PROVIDERS[provider] if provider else ANY)["messages"]
    return sent


def call(index: int | None, name: str | None, arguments: Any, id: str | None = None) -> dict[str, Any]:
    """Return a delta with a piece of a call."""
    piece: dict[str, Any] = {"function": {"name": name, "arguments": arguments}}
    piece |= {} if index is None else {"index": index}
    piece |= {} if id is None else {"id": id}
    return {"tool_calls": [piece]}


def calls(found: list[Chunk]) -> list[tuple[str, Any]]:
    """Return name and arguments of the calls."""
    return [(chunk.payload["name"], thaw(chunk.payload["arguments"])) for chunk in found if chunk.type == "tool-call"]


# Thoughts


def test_blocks_follow_one_another_with_ids_of_their_own() -> None:
    """A thought ends where the text begins, and the other way round; empty pieces open and end nothing."""
    found = chunks(
        {"reasoning": "a", "content": ""}, {"reasoning": "b"}, {"content": "c"}, {"content": ""}, {"reasoning": "d"}
    )
    assert [(chunk.type, chunk.id, chunk.text) for chunk in found[1:-1]] == [
        ("reasoning-start", "reasoning-0", ""),
        ("reasoning-delta", "reasoning-0", "a"),
        ("reasoning-delta", "reasoning-0", "b"),
        ("reasoning-end", "reasoning-0", ""),
        ("text-start", "text-1", ""),
        ("text-delta", "text-1", "c"),
        ("text-end", "text-1", ""),
        ("reasoning-start", "reasoning-2", ""),
        ("reasoning-delta", "reasoning-2", "d"),
        ("reasoning-end", "reasoning-2", ""),
    ]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_thought_goes_back_in_the_field_it_came_in(field: str) -> None:
    """Where nobody told us what the provider wants."""
    found = chunks({field: "so"}, {"content": "4"})
    assert back(found) == {"role": "assistant", field: "so", "content": "4"}


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("openai", {}),
        ("deepseek", {"reasoning_content": "so"}),
        ("groq", {"reasoning": "so"}),
        ("openrouter", {"reasoning": "so"}),
    ],
)
def test_a_thought_goes_to_a_provider_as_it_wants_it(provider: str, expected: dict[str, str]) -> None:
    """Wherever it came from."""
    for field in ("reasoning", "reasoning_content"):
        found = chunks({field: "so"}, {"content": "4"})
        assert back(found, provider) == {"role": "assistant", "content": "4", **expected}


def test_a_thought_goes_to_mistral_among_the_content() -> None:
    """In a part of its own, as Mistral sends its own."""
    expected = [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}, {"type": "text", "text": "4"}]
    assert back(chunks({"reasoning": "so"}, {"content": "4"}), "mistral")["content"] == expected
    own = chunks({"content": [{**expected[0], "closed": True}, {"type": "text", "text": "4"}]})
    assert shown(own) == [("reasoning-delta", "so"), ("text-delta", "4")]
    assert back(own, "mistral")["content"] == [{**expected[0], "closed": True}, expected[1]]


def test_details_are_read_once_and_go_back_whole() -> None:
    """Pieces of one index are one; a copy beside them is no second thought; signatures and secrets go back."""
    plain = {"type": "reasoning.text", "index": 0, "format": "f"}
    secret = {"type": "reasoning.encrypted", "data": "xyz", "index": 1, "id": "r"}
    found = chunks(
        {"reasoning": "so ", "reasoning_details": [{**plain, "text": "so "}]},
        {"reasoning": "it is", "reasoning_details": [{**plain, "text": "it is"}]},
        {"reasoning_details": [{**plain, "signature": "sig"}]},
        {"reasoning_details": [secret]},
        {"content": "4"},
    )
    assert [item for item in shown(found) if item[0] != "raw"] == [
        ("reasoning-delta", "so "),
        ("reasoning-delta", "it is"),
        ("text-delta", "4"),
    ]
    assert [type(part).__name__ for part in message(found).parts] == ["ReasoningPart", "UnknownPart", "TextPart"]
    whole = [{**plain, "text": "so it is", "signature": "sig"}, secret]
    assert back(found, "openrouter") == {"role": "assistant", "reasoning_details": whole, "content": "4"}
    assert back(found, "openai") == {"role": "assistant", "content": "4"}


SIGNED = {"type": "thinking", "thinking": "I look it up.", "signature": "c2ln"}
BLOCKS = (
    [SIGNED],
    [SIGNED, {**SIGNED, "thinking": "And again.", "signature": "MTI="}],
    [SIGNED, {"type": "redacted_thinking", "data": "MTI="}, {**SIGNED, "signature": "Mw=="}],
    [{"type": "redacted_thinking", "data": "MTI="}, {"type": "redacted_thinking", "data": "Mw=="}],
    [{**SIGNED, "thinking": ""}],
)


def in_pieces(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield blocks as LiteLLM streams them: the text beside its copy, and the signature by itself."""
    for block in blocks:
        text = block.get("thinking", "")
        for piece in (text[:5], text[5:]):
            if piece:
                yield {"reasoning_content": piece, "thinking_blocks": [{"type": "thinking", "thinking": piece}]}
        yield {"thinking_blocks": [{**block, **({"thinking": ""} if "thinking" in block else {})}]}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("whole", [True, False])
def test_thinking_of_litellm_goes_back_as_it_came(blocks: list[dict[str, Any]], whole: bool) -> None:
    """Claude refuses an answer with calls whose signed and encrypted thinking is missing; the text is read once."""
    said = "".join(block.get("thinking", "") for block in blocks)
    deltas = [{"reasoning_content": said, "thinking_blocks": blocks}] if whole else in_pieces(blocks)
    found = chunks(*deltas, call(0, "look", "{}", "c1"))
    assert "".join(chunk.text for chunk in found if chunk.type == "reasoning-delta") == said
    assert back(found, "litellm")["thinking_blocks"] == blocks
    assert "thinking_blocks" not in back(found, "openai")
    edited = message(found)
    parts = [replace(part, text="[X]") if isinstance(part, ReasoningPart) else part for part in edited.parts]
    (sent,) = body_of(ModelRequest((edited.with_parts(parts),)), "m", PROVIDERS["litellm"])["messages"]
    assert not said or ("thinking_blocks" not in sent and "[X]" in sent["reasoning"])


@pytest.mark.parametrize("provider", ["", "openrouter"])
def test_a_thought_that_was_edited_goes_back_without_what_the_provider_knows_of_it(provider: str) -> None:
    """It would refuse the signature, and what is encrypted says what was taken out."""
    details = [
        {"type": "reasoning.text", "text": "Ann said so", "signature": "sig", "index": 0},
        {"type": "reasoning.encrypted", "data": "Ann said so", "index": 1},
    ]
    answer = message(chunks({"reasoning_details": details}, {"content": "4"}))
    parts = [replace(part, text="[NAME] said so") if isinstance(part, ReasoningPart) else part for part in answer.parts]
    known = PROVIDERS[provider] if provider else ANY
    for given, expected in (
        (answer, {"reasoning_details": details}),
        (answer.with_parts(parts), {"reasoning": "[NAME] said so"}),
    ):
        (sent,) = body_of(ModelRequest((given,)), "m", known)["messages"]
        assert sent == {"role": "assistant", "content": "4", **expected}


def test_a_secret_thought_beside_a_summary_keeps_both() -> None:
    """A summary is read; one that stands beside encrypted details alone is one of its own."""
    found = chunks({"reasoning": "in short", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    kinds = {type(part) for part in message(found).parts}
    assert kinds == {ReasoningPart, UnknownPart}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "thought", "rest"),
    [
        ("<think>so it is</think>\n\nfour", "so it is", "four"),
        (" \n<think>a < b </thin</think>four </think>", "a < b </thin", "four </think>"),
        ("<think>so </th", "so </th", ""),
        ("<thinking>four", "", "<thinking>four"),
        ("four <think>no</think>", "", "four <think>no</think>"),
        ("<thin", "", "<thin"),
        ("", "", ""),
    ],
)
def test_thoughts_between_tags_are_thoughts_where_that_is_asked_for(
    text: str, thought: str, rest: str, size: int
) -> None:
    """However they are cut; only at the beginning; without asking they are text."""
    said: list[list[Chunk]] = []
    for tags in (True, False):
        reader = AnswerReader(think_tags=tags)
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        items = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
        said.append([*(chunk for item in items for chunk in reader.read(item)), *reader.end()])
    for chunks_, expected in zip(said, ((thought, rest), ("", text)), strict=True):
        kinds = ("reasoning-delta", "text-delta")
        assert tuple("".join(c.text for c in chunks_ if c.type == kind) for kind in kinds) == expected


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    ("mode", "text", "thought", "rest"),
    [
        (True, "A thought.</think>\n\nhi", "A thought.", "hi"),
        ("closed", "a < b </thin</think>hi", "a < b </thin", "hi"),
        ("closed", "no tag < at all </thin", "", "no tag < at all </thin"),
        ("opened", "A thought.</think>\n\nhi", "A thought.", "hi"),
        ("opened", "<think>A thought.</think>hi", "A thought.", "hi"),
        ("opened", "cut within", "cut within", ""),
        ("tagged", "A thought.</think>hi", "", "A thought.</think>hi"),
        ("tagged", " <think>A thought.</think>hi", "A thought.", "hi"),
    ],
)
def test_a_thought_that_the_prompt_s_template_opened_ends_at_its_tag(
    mode: Any, text: str, thought: str, rest: str, size: int
) -> None:
    """The opening tag is in the prompt then, and not in the answer."""
    reader = AnswerReader(think_tags=mode)
    items = [{"choices": [{"delta": {"content": text[at : at + size]}}]} for at in range(0, len(text), size)]
    found = [*(chunk for item in items for chunk in reader.read(item)), *reader.end()]
    kinds = ("reasoning-delta", "text-delta")
    assert tuple("".join(c.text for c in found if c.type == kind) for kind in kinds) == (thought, rest)


def test_an_answer_that_opens_no_thought_streams_where_tags_alone_count() -> None:
    """In the mode `tagged`, nothing is held once it is clear that no tag begins the answer."""
    reader = AnswerReader(think_tags="tagged")
    assert shown(list(reader.read({"choices": [{"delta": {"content": "Hello"}}]}))) == [("text-delta", "Hello")]


def test_a_thought_that_stands_in_two_fields_is_read_once() -> None:
    """Servers that changed the name of the field send both; different texts are both read."""
    pieces = [{"reasoning": word, "reasoning_content": word} for word in ("I ", "think ", "so.")]
    (said,) = message(chunks(*pieces)).parts
    assert said == ReasoningPart("I think so.")
    both = message(chunks({"reasoning": "a", "reasoning_content": "b"})).parts
    assert [part.text for part in both if isinstance(part, ReasoningPart)] == ["b", "a"]


# Tool calls


def test_arguments_come_in_pieces_and_calls_in_parallel() -> None:
    """By index, interleaved; the start comes as soon as the name is known."""
    found = chunks(
        call(0, "a", "", "c1"),
        call(1, "b", '{"x"', "c2"),
        call(0, None, '{"y":'),
        call(1, None, ":1}"),
        call(0, None, "2}"),
    )
    assert calls(found) == [("a", {"y": 2}), ("b", {"x": 1})]
    assert [chunk.id for chunk in found if chunk.type == "tool-input-start"] == ["c1", "c2"]
    assert "".join(chunk.text for chunk in found if chunk.type == "tool-input-delta" and chunk.id == "c2") == '{"x":1}'


@pytest.mark.parametrize(
    "deltas",
    [
        [call(None, "a", "{}", "1"), call(None, "b", "{}", "2")],
        [call(None, "a", "{}"), call(None, "b", "{}")],
        [call(0, "a", "{}", "1"), call(0, "b", "{}", "2")],
        [{"tool_calls": [*call(None, "a", "{}")["tool_calls"], *call(None, "b", "{}")["tool_calls"]]}],
        [call(0, "a", "{", ""), call(0, None, "}"), call(1, "b", {}, "")],
        [call(None, "a", "{", "1"), call(None, None, "}"), call(None, "b", None, "2")],
    ],
)
def test_calls_are_told_apart_without_index_or_id(deltas: list[dict[str, Any]]) -> None:
    """Each gets an id, whole arguments may come in one piece, or as the object that they are."""
    found = chunks(*deltas)
    assert calls(found) == [("a", {}), ("b", {})]
    ids = [chunk.payload["call_id"] for chunk in found if chunk.type == "tool-call"]
    assert all(ids)
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ([call(0, "get_", "", "1"), call(0, "weather", "{}")], [("get_weather", {})]),
        ([call(0, "get_", ""), call(1, "b", "{}"), call(0, None, "{}")], [("get_", {}), ("b", {})]),
        ([call(0, "w", '{"a"', "1"), call(0, "w", ":1", "1"), call(0, "w", "}")], [("w", {"a": 1})]),
        ([call(0, "w", '{"a":"}{'), call(0, "w", '"}')], [("w", {"a": "}{"})]),
        ([call(0, "w", '{"a":"\\'), call(0, "w", '"}"}')], [("w", {"a": '"}'})]),
        ([call(0, "w", '{"a":1}'), call(0, "w", '{"a":2}')], [("w", {"a": 1}), ("w", {"a": 2})]),
        ([call(0, "w", '{"a":1}'), call(0, "w", '{"a":1}')], [("w", {"a": 1}), ("w", {"a": 1})]),
        ([call(0, "w", '{"a":1}', "1"), call(0, "w", '{"a":1}', "1")], [("w", {"a": 1})]),
        ([call(None, "w", '{"a":1}', "1"), call(None, "w", '{"a":2}', "1")], [("w", {"a": 1}), ("w", {"a": 2})]),
        ([call(0, "w", '{"a":1}', "1"), call(1, "v", "{}", "1")], [("w", {"a": 1}), ("v", {})]),
    ],
)
def test_names_in_pieces_and_calls_in_one_place_are_told_apart(deltas: Any, expected: Any) -> None:
    """A name may come in pieces or again with each piece; another call begins where an object is complete."""
    found = chunks(*deltas)
    assert calls(found) == expected
    ids = [chunk.id for chunk in found if chunk.type == "tool-call"]
    assert len(set(ids)) == len(ids)
    assert [chunk.payload["name"] for chunk in found if chunk.type == "tool-input-start"] == [n for n, _ in expected]


@pytest.mark.parametrize(
    ("text", "expected", "invalid"),
    [
        ("", {}, False),
        ("null", {}, False),
        ("[1]", [1], False),
        ('{"a":', '{"a":', True),
        ('{"a": NaN}', '{"a": NaN}', True),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}', True),
        ("go", "go", True),
    ],
)
def test_arguments_that_are_no_object_are_told(text: str, expected: Any, *, invalid: bool) -> None:
    """Another value is itself; what is no JSON, or says two things, stays the text that it is."""
    found = chunks(call(0, "a", text, "1"))
    assert calls(found) == [("a", expected)]
    assert [chunk.payload.get("invalid", False) for chunk in found if chunk.type == "tool-call"] == [invalid]


def test_arguments_go_back_in_the_style_they_came_in() -> None:
    """So that a provider's cache knows them again."""
    text = '{"a": "ö", "b": [1, 2]}'
    found = chunks(call(0, "look", text, "1"))
    assert back(found)["tool_calls"] == [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": text}}
    ]


def test_what_a_provider_adds_to_a_call_goes_back_with_it() -> None:
    """Gemini's signatures stand there."""
    extra = {"google": {"thought_signature": "sig"}}
    delta = call(0, "look", "{}", "1")
    delta["tool_calls"][0]["extra_content"] = extra
    assert back(chunks(delta))["tool_calls"][0]["extra_content"] == extra


def test_the_older_function_call_and_custom_tools_are_calls() -> None:
    """One has no id; the other no JSON."""
    found = chunks({"function_call": {"name": "a", "arguments": "{"}}, {"function_call": {"arguments": "}"}})
    assert calls(found) == [("a", {})]
    custom = {"index": 0, "id": "1", "type": "custom", "custom": {"name": "py", "input": "print(1)"}}
    assert calls(chunks({"tool_calls": [custom]})) == [("py", "print(1)")]


def test_calls_end_for_the_reason_that_there_are_calls() -> None:
    """Some providers say stop."""
    assert chunks(call(0, "a", "{}"))[-1].payload["reason"] == "tool-calls"
    assert chunks({"content": "a"})[-1].payload["reason"] == "stop"


# Everything else


def test_a_refusal_is_a_text_that_says_so() -> None:
    """Its block says that it is one, and it goes back as one."""
    found = chunks({"refusal": "I will"}, {"refusal": " not"})
    start = next(chunk for chunk in found if chunk.type == "text-start")
    assert start.payload == {"refusal": True}
    assert back(found) == {"role": "assistant", "refusal": "I will not", "content": None}


def test_sources_are_told_wherever_they_stand() -> None:
    """Annotations with their places; lists of addresses, of objects, and what tools found, each address once."""
    cited = {"type": "url_citation", "url_citation": {"url": "u1", "title": "t", "start_index": 1, "end_index": 2}}
    found = chunks(
        {"content": "a", "annotations": [cited]},
        {"executed_tools": [{"search_results": {"results": [{"url": "u2", "title": "two"}]}}]},
        citations=["u1", "u3"],
        search_results=[{"url": "u3", "title": "three"}],
    )
    sources = [thaw(chunk.payload) for chunk in found if chunk.type == "source"]
    assert [(source["url"], source["title"]) for source in sources] == [("u1", "t"), ("u2", "two"), ("u3", "three")]
    assert sources[0]["metadata"] == {"start_index": 1, "end_index": 2}


def test_pictures_and_sounds_are_files() -> None:
    """A sound comes in pieces, and is told whole, with what is said in it; its id goes back."""
    found = chunks(
        {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}]},
        {"audio": {"id": "au", "transcript": "Hel"}},
        {"audio": {"data": "QUJD", "transcript": "lo"}},
    )
    files = [thaw(chunk.payload) for chunk in found if chunk.type == "file"]
    assert files[0] == {"media_type": "image/png", "data": "QQ=="}
    assert (files[1]["data"], files[1]["transcript"]) == ("QUJD", "Hello")
    sound = next(part for part in message(found).parts if isinstance(part, AudioPart))
    assert sound.transcript == "Hello"


def test_nothing_that_a_provider_says_is_lost() -> None:
    """Its terms apart from what may be words of the answer; the message's own; lists grow."""
    reader = AnswerReader()
    first = {
        "choices": [{"delta": {"content": "a", "odd": [1]}, "logprobs": {"content": [1]}}],
        "system_fingerprint": "fp",
    }
    second = {
        "choices": [{"delta": {"odd": [2]}, "logprobs": {"content": [2]}, "finish_reason": "stop"}],
        "moderation": {"flagged": False},
    }
    end = [*reader.read(first), *reader.read(second), *reader.end()][-1]
    assert thaw(end.payload["provider_terms"]) == {"system_fingerprint": "fp"}
    assert thaw(end.payload["metadata"]) == {
        "logprobs": {"content": [1, 2]},
        "moderation": {"flagged": False},
        "message": {"odd": [1, 2]},
    }


def test_usage_is_counted_in_the_same_words() -> None:
    """What is cached and what was thought stand in different places; costs are kept."""
    for given in (
        {"prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}},
        {"prompt_cache_hit_tokens": 3, "reasoning_tokens": 2},
        {"num_cached_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}},
    ):
        usage = chunks({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 4, "cost": 0.5, **given})[
            -1
        ].payload["usage"]
        assert [usage[f"{name}_tokens"] for name in ("input", "output", "cached", "reasoning")] == [9, 4, 3, 2]
        assert usage["details"]["cost"] == 0.5


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -5, 1e300, 10**400, "many", True])
def test_a_count_that_is_none_is_not_counted(odd: Any) -> None:
    """Budgets are computed from usage."""
    said = {"prompt_tokens": odd, "completion_tokens": 4, "cost": odd, "prompt_tokens_details": {"cached_tokens": odd}}
    usage = chunks({"content": "a"}, usage=said)[-1].payload["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cached_tokens"]) == (None, 4, None)
    assert all(abs(cost) < 10**16 for cost in usage["details"].values() if isinstance(cost, (int, float)))


def test_a_list_that_is_repeated_with_each_event_is_kept_once() -> None:
    """Perplexity does so; a list that grows is kept as it is in the end, and one that goes on is appended."""
    reader = AnswerReader()
    items: list[dict[str, Any]] = [
        {"related": ["a"], "images": [{"u": 1}], "ids": [5], "parts": ["x"]},
        {"related": ["a", "b"], "images": [{"u": 1}], "ids": [5], "parts": ["y"]},
        {"related": ["a", "b"], "images": [{"u": 1}], "ids": [7], "parts": ["z"]},
    ]
    events = [
        {**item, "choices": [{"delta": {"content": "w"}, "logprobs": {"content": [{"t": "w"}]}}]} for item in items
    ]
    assert [chunk.type for event in events for chunk in reader.read(event)]
    end = list(reader.end())[-1]
    assert thaw(end.payload["metadata"]) == {
        "related": ["a", "b"],
        "images": [{"u": 1}],
        "ids": [5, 5, 7],
        "parts": ["x", "y", "z"],
        "logprobs": {"content": [{"t": "w"}] * 3},
    }


def test_a_list_that_was_empty_within_an_object_grows() -> None:
    """An object is kept as it came first, its empty lists too."""
    reader = AnswerReader()
    for ids in ([], [], ["a"]):
        reader.read({"choices": [{"delta": {"content": "w"}}], "odd": {"ids": ids, "n": 1}})
    assert thaw(reader.end()[-1].payload["metadata"]) == {"odd": {"ids": ["a"], "n": 1}}


def test_pictures_and_citations_that_are_repeated_are_told_once() -> None:
    """In whichever event they come again."""
    cited = {"type": "url_citation", "url_citation": {"url": "u1", "title": "t", "start_index": 1, "end_index": 2}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    found = chunks(*[{"content": "a", "annotations": [cited], "images": [picture]}] * 3)
    assert [chunk.type for chunk in found if chunk.type in ("file", "source")] == ["source", "file"]


def test_characters_that_were_cut_in_two_are_joined() -> None:
    """JSON writes a character beyond the first 65,536 as two halves; one half alone is the sign for what is unknown."""
    high, low = "\ud83d", "\ude00"
    found = chunks(
        {"reasoning": f"a{high}"},
        {"reasoning": f"{low}b{high}"},
        {"content": high},
        {"content": low, "extra": f"{low}x"},
        {"content": f"{low}{high}."},
        call(0, "look", '{"a":"' + high, "1"),
        call(0, None, low + '"}'),
    )
    assert "".join(chunk.text for chunk in found if chunk.type == "reasoning-delta") == "a😀b\ufffd"
    assert "".join(chunk.text for chunk in found if chunk.type == "text-delta") == "😀\ufffd\ufffd."
    assert calls(found) == [("look", {"a": "😀"})]
    str([(chunk.text, dict(chunk.payload)) for chunk in found]).encode()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('["\\ud83d", "\\ude00"]', ["\ud83d", "\ude00"]),
        ('"\ud83d"', "\ud83d"),
        ("[NaN, -Infinity]", [None, None]),
        ("[" * 500 + "]" * 500, None),
        (' {"a": 1, "a": 2}\n', {"a": 2}),
        ("[1,]", None),
        ("1" * 5_000, None),
        ("", None),
    ],
)
def test_json_is_read_as_the_standard_library_reads_it(text: str, value: Any) -> None:
    """Also what the faster parser refuses; NaN and infinite numbers are null."""
    if len(text) == 1_000:
        value = json.loads(text)
    assert parsed(text) == value


def test_further_choices_are_reported_beside_the_answer() -> None:
    """They are no part of it, and not lost."""
    reader = AnswerReader()
    item = {"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]}
    last = {"choices": [{"index": 1, "delta": {"content": "c"}, "finish_reason": "stop"}]}
    found = [*reader.read(item), *reader.read(last), *reader.end()]
    assert shown(found) == [("text-delta", "a")]
    told = thaw(found[-1].payload["metadata"]["other_choices"])
    assert told == [{"index": 1, "content": "bc", "finish_reason": "stop"}]


@hypothesis.given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=3),
        lambda below: (
            st.lists(below, max_size=3)
            | st.dictionaries(st.sampled_from([*sorted(ANSWER_KEYS), "x"]), below, max_size=4)
        ),
        max_leaves=20,
    )
)
@hypothesis.settings(max_examples=examples(300), deadline=None)
def test_whatever_an_event_holds_it_is_read_or_refused(value: Any) -> None:
    """No other exception leaves the reader, and what leaves it can be encoded."""
    for item in ({"choices": [{"index": 0, "delta": value}]}, {"choices": [value], "usage": value}, {"x": value}):
        reader, answer = AnswerReader(think_tags=True), Assembly()
        try:
            for chunk in [*reader.read(item), *reader.read(item), *reader.end()]:
                answer.add(chunk)
                str((chunk.text, chunk.id, dict(chunk.payload))).encode()
        except MessageError:
            continue
        assert answer.message.role == "assistant"


def test_an_event_that_is_nested_too_deeply_is_refused() -> None:
    """Reading it would run into the interpreter's own limit."""
    deep: Any = "x"
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(MessageError, match="nested"):
        list(AnswerReader().read({"choices": [{"delta": {"content": "a", "odd": deep}}]}))


def counted_lines(work: Callable[[], object]) -> int:
    """Return how many lines are run, each round of a loop on one line included."""
    lines = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("index", [True, False])
def test_reading_calls_of_tools_takes_work_in_proportion_to_them(index: bool) -> None:
    """Wherever the pieces are put together: in the reader, and in what collects its chunks."""

    def work(count: int) -> None:
        pieces = [call(place if index else None, "f", "{}", f"c{place}")["tool_calls"][0] for place in range(count)]
        reader, answer = AnswerReader(), Assembly()
        item = {"choices": [{"delta": {"tool_calls": pieces}, "finish_reason": "tool_calls"}]}
        for chunk in [*reader.read(item), *reader.end()]:
            answer.add(chunk)
        assert len(answer.message.parts) == count

    few, many = (counted_lines(lambda size=size: work(size)) for size in (100, 400))
    assert many < 4.2 * few


def test_a_part_of_a_kind_that_nobody_knows_goes_back_as_it_came() -> None:
    """It is shown to nobody."""
    odd = {"type": "reference", "reference_ids": [1]}
    found = chunks({"content": [{"type": "text", "text": "a"}, odd]})
    assert back(found)["content"] == [{"type": "text", "text": "a"}, odd]


def test_every_way_of_saying_why_it_ended_is_understood() -> None:
    """What is not known is told as it came."""
    for raw, reason in {
        "stop": "stop",
        "MAX_TOKENS": "length",
        "content_filter": "content-filter",
        "odd": "other",
    }.items():
        reader = AnswerReader()
        list(reader.read({"choices": [{"message": {"content": "a"}, "finish_reason": raw}]}))
        end = list(reader.end())[-1]
        assert (end.payload["reason"], end.payload["raw_reason"]) == (reason, raw)


@pytest.mark.parametrize("said", [{"content": "4"}, call(0, "look", "{}", "c1")])
@pytest.mark.parametrize("raw", [None, "", "length"])
def test_an_answer_that_is_whole_ends_alike_in_either_form(said: Any, raw: str | None) -> None:
    """Snowflake gives no reason: its stream is whole once its end is marked."""

    def reason(form: str, *, done: bool) -> object:
        reader = AnswerReader()
        list(reader.read({"choices": [{form: said, "finish_reason": raw}]}))
        return list(reader.end(done=done))[-1].payload["reason"]

    assert reason("delta", done=True) == reason("message", done=False)
    assert reason("delta", done=False) == ("length" if raw else "tool-calls" if "tool_calls" in said else "other")


def test_results_go_back_to_the_calls_they_answer() -> None:
    """A tool part that is done becomes a call and its result."""
    part = ToolPart("1", "look", {"at": 1}, state="result", result={"found": True})
    sent = body_of(ModelRequest((Message.assistant([part]),)), "m", ANY)["messages"]
    assert [item["role"] for item in sent] == ["assistant", "tool"]
    assert json.loads(sent[1]["content"]) == {"found": True}


def test_an_odd_answer_is_passed_over_or_refused_but_never_breaks() -> None:
    """Numbers for texts, texts for objects."""
    odd = {
        "content": 5,
        "tool_calls": "x",
        "reasoning_details": [1, {}],
        "annotations": {},
        "audio": "a",
        "images": [1],
    }
    try:
        found = chunks(odd, usage="x")
    except MessageError:
        return
    assert shown(found) == []
