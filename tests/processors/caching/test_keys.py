"""What tells model calls apart: which are answered by the same kept answer, and what may be seen of them in keys."""

import datetime as dt
import logging
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydantic
import pytest

from penstock import Message, OptionError, ResponseCache, TextPart, ToolPart
from penstock.engine import FilePart, ModelRequest, ResponseFormat, ToolSpec
from penstock.processors.caching import CacheRequest
from tests.processors.caching.calls import HELLO, Named, Shared, hit

CALLED = (Message.assistant([ToolPart("c1", "f", {"a": 1})]), Message.tool([ToolPart("c1", "f", {}, "result", 2)]))
AGAIN = (Message.assistant([ToolPart("x9", "f", {"a": 1})]), Message.tool([ToolPart("x9", "f", {}, "result", 2)]))

OTHERS: dict[str, ModelRequest] = {
    "another text": ModelRequest((Message.user("hello!"),)),
    "another role": ModelRequest((Message.system("hello"),)),
    "a system message": ModelRequest((Message.system("Be kind."), Message.user("hello"))),
    "a picture": ModelRequest((Message.user([FilePart(data="QUJD", media_type="image/png")]),)),
    "settings": replace(HELLO, settings={"temperature": 1}),
    "tools": replace(HELLO, tools=(ToolSpec("search"),)),
    "a tool's schema": replace(HELLO, tools=(ToolSpec("search", {"type": "object"}),)),
    "choice of tools": replace(HELLO, tool_choice="required"),
    "named tools": replace(HELLO, tool_choice=("search",)),
    "response format": replace(HELLO, response_format=ResponseFormat({"type": "object"})),
    "provider options": replace(HELLO, provider_options={"seed": 1}),
    "an empty provider option": replace(HELLO, provider_options={"web_search": {}}),
    "another empty one": replace(HELLO, provider_options={"code": {}}),
    "metadata that goes to a provider": ModelRequest((Message.user("hello", metadata={"openai": {"a": 1}}),)),
    "a call": ModelRequest((Message.user("hello"), *CALLED)),
}

SAME: dict[str, tuple[ModelRequest, ModelRequest]] = {
    "ids and times": (HELLO, ModelRequest((Message.user("hello", id="m1", thread_id="t", resource_id="r"),))),
    "a time limit": (HELLO, replace(HELLO, settings={"timeout": 3.5})),
    "ids of calls": (ModelRequest(CALLED), ModelRequest(AGAIN)),
    "a framework's notes": (
        ModelRequest((Message.user("hello", metadata={"openai": {"a": 1}, "mastra": {"at": 1}}),)),
        ModelRequest((Message.user("hello", metadata={"openai": {"a": 1}, "mastra": {"at": 2}}),)),
    ),
    "a framework's notes alone": (HELLO, replace(HELLO, provider_options={"penstock": {"at": 2}})),
    "a framework's notes on a text": (
        HELLO,
        ModelRequest((Message.user([TextPart("hello", metadata={"mastra": {"at": 1}})]),)),
    ),
    "the order of keys": (
        replace(HELLO, settings={"seed": 1, "top_p": 1.0}),
        replace(HELLO, settings={"top_p": 1.0, "seed": 1}),
    ),
}


async def test_all_that_a_model_is_sent_tells_calls_apart() -> None:
    """Each of these is asked anew, and then answered without the model."""
    cache = ResponseCache()
    for request in (HELLO, *OTHERS.values()):
        assert not await hit(cache, request)
    for request in (HELLO, *OTHERS.values()):
        assert await hit(cache, request)


@pytest.mark.parametrize("what", SAME)
async def test_what_no_model_reads_tells_no_calls_apart(what: str) -> None:
    """They are answered by one answer."""
    cache = ResponseCache()
    one, other = SAME[what]
    assert not await hit(cache, one)
    assert await hit(cache, other)


async def test_pairs_of_calls_and_results_are_told_apart() -> None:
    """Calls are numbered, so whose result is whose still counts."""
    one = ModelRequest(
        (Message.assistant([ToolPart("a", "f"), ToolPart("b", "f")]), Message.tool([ToolPart("a", "f")]))
    )
    two = ModelRequest(
        (Message.assistant([ToolPart("a", "f"), ToolPart("b", "f")]), Message.tool([ToolPart("b", "f")]))
    )
    cache = ResponseCache()
    assert not await hit(cache, one)
    assert not await hit(cache, two)


async def test_models_are_told_apart_by_name_and_identity() -> None:
    """The same name at another address is another model."""
    cache = ResponseCache()
    models = [Named("a"), Named("b"), Named("a", {"url": "https://one"}), Named("a", {"url": "https://two"})]
    for model in models:
        assert not await hit(cache, model=model)
    for model in models:
        assert await hit(cache, model=model)


async def test_steps_of_a_run_are_told_apart() -> None:
    """What was said first is not what is said next, even to the same prompt."""
    cache = ResponseCache()
    assert not await hit(cache)
    assert not await hit(cache, step=1)
    assert await hit(cache, step=1)


class Options(pydantic.BaseModel):
    """Options as a provider's library has them."""

    words: set[str] = {"a", "b", "c"}


async def test_dates_urls_bytes_and_sets_have_stable_forms() -> None:
    """They are made anew for each call."""
    cache = ResponseCache()

    def request() -> ModelRequest:
        options: dict[str, Any] = {
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            "url": pydantic.HttpUrl("https://example.org/a"),
            "bytes": bytes([0, 255]),
            "set": {"b", "a"},
            "id": uuid.UUID(int=7),
            "path": Path("/a"),
            "model": Options(),
            1: None,
        }
        return replace(HELLO, provider_options=options)

    assert not await hit(cache, request())
    assert await hit(cache, request())


async def test_what_has_no_stable_form_is_never_kept(caplog: pytest.LogCaptureFixture) -> None:
    """The model is asked, and the log says why, once."""
    cache = ResponseCache(shared := Shared())
    request = replace(HELLO, provider_options={"client": object()})
    with caplog.at_level(logging.WARNING, "penstock"):
        for _ in range(3):
            assert not await hit(cache, request)
    assert not shared.kept
    assert [record.getMessage().count("no stable form") for record in caplog.records] == [1]


async def test_nobody_learns_from_a_key_what_was_asked() -> None:
    """Prompt, scope, tags and keys of one's own are hashed."""
    shared = Shared()
    cache = ResponseCache(shared, tags=["topic-secret"])
    await hit(cache, ModelRequest((Message.user("prompt-secret"),)), resource_id="user-secret")
    await hit(cache, resource_id="user-secret", response_cache={"key": "key-secret"})
    assert len(shared.answers) == 2
    assert not [key for key in shared.kept if "secret" in key]
    assert "secret" not in repr(cache)


async def test_everybody_has_answers_of_their_own() -> None:
    """By default of each resource; those who name none share theirs."""
    cache = ResponseCache()
    for who in ("ann", "bob", None):
        assert not await hit(cache, resource_id=who)
        assert await hit(cache, resource_id=who)


async def test_answers_may_be_shared_by_all_by_a_team_or_as_a_function_says() -> None:
    """None, a text, or what the context tells."""
    for scope in (None, "team", lambda ctx: ctx.request_context["team"]):
        cache = ResponseCache(scope=scope)
        assert not await hit(cache, resource_id="ann", team="blue")
        assert await hit(cache, resource_id="bob", team="blue")


async def test_a_fixed_key_stays_within_its_scope_and_agent() -> None:
    """What one user was told is not told another, whatever the key."""
    shared = Shared()
    cache = ResponseCache(shared, key="pinned")
    assert not await hit(cache, resource_id="ann")
    assert await hit(cache, OTHERS["settings"], resource_id="ann")
    assert not await hit(cache, resource_id="bob")
    assert not await hit(ResponseCache(shared, key="pinned", agent_id="other"), resource_id="ann")


async def test_a_function_may_make_keys() -> None:
    """It sees the whole call; it may be async."""

    async def by_last(about: CacheRequest) -> str:
        return about.request.messages[-1].text.strip().lower()

    cache = ResponseCache(key=by_last)
    assert not await hit(cache, ModelRequest((Message.user("Hello "),)))
    assert await hit(cache, ModelRequest((Message.user("hello"),)))


@pytest.mark.parametrize("key", [lambda about: about.nothing, lambda _: "", lambda _: 7])
async def test_where_a_function_makes_no_key_the_whole_request_is_it(key: Any) -> None:
    """That holds for everything."""
    cache = ResponseCache(key=key)
    assert not await hit(cache)
    assert await hit(cache)
    assert not await hit(cache, OTHERS["settings"])


async def test_what_a_function_is_given_shows_no_text() -> None:
    """Its repr may end up in a log."""
    seen: list[CacheRequest] = []
    cache = ResponseCache(key=lambda about: seen.append(about) or "k", scope="user-secret")
    await hit(cache, ModelRequest((Message.user("prompt-secret"),)), note="context-secret")
    assert seen[0].scope == "user-secret"
    assert "secret" not in repr(seen[0])


async def test_a_caller_may_lay_its_own_wishes_over_the_options() -> None:
    """Key, scope, bust, skip, tags and ttl, for this request."""
    shared = Shared()
    cache = ResponseCache(shared)
    assert not await hit(cache, response_cache={"key": "mine", "ttl": 7})
    assert [shared.ttls[key] for key in shared.answers] == [7]
    assert await hit(cache, OTHERS["tools"], response_cache={"key": "mine"})
    assert not await hit(cache, response_cache={"key": "mine", "scope": "team"})
    assert not await hit(cache, response_cache={"key": "mine", "bust": True})
    before = dict(shared.kept)
    assert not await hit(cache, response_cache={"key": "mine", "skip": True})
    assert not await hit(cache, response_cache={"key": "new", "skip": True})
    assert shared.kept == before


@pytest.mark.parametrize(
    "wish", [{"scopes": "ann"}, {"scope": ""}, {"bust": "yes"}, {"ttl": 0}, {"tags": "a"}, ["key"]]
)
async def test_a_wish_that_cannot_be_meant_keeps_nothing(wish: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whose answer it is could be mixed up; the model is asked, and the log says so."""
    cache = ResponseCache(shared := Shared())
    assert not await hit(cache, response_cache=wish)
    assert not shared.kept
    assert "response-cache" in caplog.text


async def test_a_host_that_does_not_tell_what_is_asked_has_nothing_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A key of the messages alone would be wrong for another temperature."""
    cache = ResponseCache(shared := Shared())
    assert not await hit(cache, model=None)
    assert not await hit(cache, model=object())
    assert not shared.kept
    assert "request= and model=" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"cache": object()},
        {"key": ""},
        {"key": 7},
        {"ttl": 0},
        {"ttl": float("inf")},
        {"ttl": True},
        {"scope": ""},
        {"bust": "no"},
        {"agent_id": " "},
        {"tags": "one"},
        {"tags": [1]},
        {"keep": "all"},
        {"tool_calls": True},
        {"max_size": 0},
        {"timeout": 0},
        {"timeout": None},
        {"max_wait": -1},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """The error names the option."""
    with pytest.raises(OptionError) as caught:
        ResponseCache(**options)
    assert caught.value.option == next(iter(options))
