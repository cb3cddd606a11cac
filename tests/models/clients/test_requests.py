"""Whether a request becomes the body that its provider understands; it sends none."""

import json
from typing import Any

import pytest

from penstock import Message, OpenAICompatibleModel, OptionError, TextPart, ToolPart
from penstock.engine import (
    AudioPart,
    FilePart,
    ImagePart,
    MessageError,
    ModelRequest,
    ResponseFormat,
    ToolSpec,
    UsageError,
)
from penstock.models.openai.providers import ANY, PROVIDERS
from penstock.models.openai.requests import body_of

A, B = ToolSpec("a", {"type": "object"}, "does a", strict=True), ToolSpec("b")


def body(provider: str = "", messages: Any = "hi", **fields: Any) -> dict[str, Any]:
    """Return the body of a request."""
    return body_of(ModelRequest(messages, **fields), "m", PROVIDERS[provider] if provider else ANY)


def test_a_stream_is_asked_for_with_its_usage() -> None:
    """Mistral tells it unasked, and refuses to be asked."""
    assert body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "stream_options" not in body("mistral")
    assert "stream_options" not in body_of(ModelRequest("hi"), "m", ANY, stream=False)  # type: ignore[arg-type]


def test_settings_go_out_under_the_names_of_the_provider() -> None:
    """None is not said; what we do not know is passed on; timeouts are ours."""
    settings = {"max_tokens": 5, "temperature": None, "stop_sequences": ["x"], "top_k": 3, "timeout": 9}
    assert {key: value for key, value in body(settings=settings).items() if key not in body()} == {
        "max_tokens": 5,
        "stop": ["x"],
        "top_k": 3,
    }
    assert body("openai", settings=settings)["max_completion_tokens"] == 5


def test_options_of_the_provider_are_laid_over_all_but_tools() -> None:
    """Tools that run at the provider stand beside one's own."""
    search = {"type": "openrouter:web_search"}
    made = body(tools=[B], settings={"seed": 1}, provider_options={"seed": None, "tools": [search], "user": "u"})
    assert (made["seed"], made["user"]) == (None, "u")
    assert made["tools"][1] == search


@pytest.mark.parametrize(
    ("choice", "provider", "expected"),
    [
        ("auto", "", None),
        ("none", "", "none"),
        ("required", "", "required"),
        ("required", "mistral", "any"),
        (("a",), "", {"type": "function", "function": {"name": "a"}}),
        (("a", "b"), "", "required"),
    ],
)
def test_a_choice_of_tools_is_said_as_the_provider_says_it(choice: Any, provider: str, expected: Any) -> None:
    """No choice is not said."""
    made = body(provider, tools=[A, B], tool_choice=choice)
    assert made.get("tool_choice") == expected
    assert made["tools"][0] == {
        "type": "function",
        "function": {"name": "a", "parameters": {"type": "object"}, "description": "does a", "strict": True},
    }


def test_only_the_tools_that_must_be_called_are_offered() -> None:
    """Where several may be the one."""
    made = body(tools=[A, B, ToolSpec("c")], tool_choice=("a", "c"))
    assert [tool["function"]["name"] for tool in made["tools"]] == ["a", "c"]


@pytest.mark.parametrize("choice", [("x",), ("a", "x"), ()])
def test_a_tool_that_is_not_there_cannot_be_chosen(choice: Any) -> None:
    """The tools that are there are told."""
    with pytest.raises(UsageError, match="the tools are 'a', 'b'"):
        body(tools=[A, B], tool_choice=choice)


def test_a_choice_where_there_are_no_tools_is_not_overlooked() -> None:
    """The provider may have some of its own; what is named must be there."""
    own = {"tools": [{"type": "web_search"}]}
    assert body(tool_choice="none", provider_options=own)["tool_choice"] == "none"
    assert body(tool_choice="required", provider="mistral", provider_options=own)["tool_choice"] == "any"
    assert "tool_choice" not in body(tool_choice="required")
    with pytest.raises(UsageError, match="there are no tools"):
        body(tool_choice=("a",))


def test_a_choice_of_tools_is_a_known_word_or_names() -> None:
    """A name by itself would be taken for a word; a list of names will do."""
    with pytest.raises(MessageError, match="a tuple of names"):
        body(tools=[A, B], tool_choice="a")
    assert body(tools=[A, B], tool_choice=["a"])["tool_choice"]["function"] == {"name": "a"}


def test_a_form_is_asked_for_of_the_provider() -> None:
    """A schema, or any object."""
    form = ResponseFormat({"type": "object"}, "verdict", "what was found")
    assert body(response_format=form)["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "verdict",
            "schema": {"type": "object"},
            "strict": True,
            "description": "what was found",
        },
    }
    assert body(response_format=ResponseFormat())["response_format"] == {"type": "json_object"}


def test_where_a_provider_knows_no_schemas_the_model_is_told() -> None:
    """Behind the system messages at the beginning."""
    messages = [Message.system("be brief"), Message.user("hi")]
    made = body("deepseek", messages, response_format=ResponseFormat({"type": "object"}))
    assert made["response_format"] == {"type": "json_object"}
    assert [item["role"] for item in made["messages"]] == ["system", "system", "user"]
    assert made["messages"][1]["content"].endswith('{"type": "object"}')


def test_pictures_files_and_sounds_are_shown() -> None:
    """As the protocol shows them."""
    parts = [
        TextPart("look"),
        ImagePart("https://x/y.png"),
        ImagePart(data="QQ==", media_type="image/png"),
        AudioPart("QQ==", media_type="audio/wav"),
        FilePart("QQ==", media_type="application/pdf", name="a.pdf"),
    ]
    assert body("", [Message.user(parts)])["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}},
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
    ]


def test_an_image_says_in_which_detail_it_is_to_be_seen() -> None:
    """By its metadata, whoever made it."""
    part = ImagePart(url="https://x.org/a.png", metadata={"detail": "low"})
    (sent,) = body(messages=(Message("user", (part,)),))["messages"]
    assert sent["content"] == [{"type": "image_url", "image_url": {"url": "https://x.org/a.png", "detail": "low"}}]


def test_the_text_parts_of_a_result_are_sent_as_parts() -> None:
    """Tools of MCP return them; any other list is sent as JSON."""
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for result in (texts, [*texts, {"x": 1}]):
        part = ToolPart("1", "look", {}, state="result", result=result)
        sent = body(messages=(Message("assistant", (part,)),))["messages"][-1]
        assert sent["role"] == "tool"
        assert (sent["content"] if result is texts else json.loads(sent["content"])) == result


def test_system_messages_may_have_the_role_that_a_model_wants() -> None:
    """OpenAI's newer models call it developer."""
    request = ModelRequest((Message.system("Be brief."), Message.user("hi")))
    model = OpenAICompatibleModel("m", base_url="http://x/v1", system_role="developer")
    assert [item["role"] for item in model.body(request)["messages"]] == ["developer", "user"]
    with pytest.raises(OptionError, match="system_role"):
        OpenAICompatibleModel("m", base_url="http://x/v1", system_role="admin")  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["settings", "provider_options"])
def test_several_answers_cannot_be_asked_for(where: str) -> None:
    """One is read: the others would be lost."""
    request: Any = {where: {"n": 2}}
    with pytest.raises(UsageError, match="n=2"):
        body(**request)
    request = {where: {"n": 1}}
    assert body(**request)["n"] == 1
