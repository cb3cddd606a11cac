"""Whether what cannot be sent is a clear error that shows no key: bodies, headers, proxies, certificates."""

import html
import json
import re
import traceback
from urllib.parse import quote

import pytest

from penstock import ModelError, OpenAICompatibleModel, OptionError
from penstock.testing.provider import FakeProvider, Reply
from tests.models.clients.conftest import KEY, Making, everything_in

PASSWORD = "hunter2-of-the-proxy"


async def failure(asking: Making, text: str = "hi", **options: object) -> ModelError:
    """Return the error of a model that cannot even ask; the server is told nothing."""
    with FakeProvider(["never asked"]) as server:
        async with asking(server, **options) as model:
            with pytest.raises(ModelError) as caught:
                await model.ask(text)
        assert not server.requests
    shown = everything_in(caught.value) + "".join(traceback.format_exception(caught.value))
    assert not [secret for secret in (KEY, PASSWORD, text) if secret in shown and secret != "hi"]
    return caught.value


async def test_a_text_that_is_no_unicode_cannot_be_sent(asking: Making) -> None:
    """JSON can bring one in; a guard that asks must fail in the way that it says."""
    error = await failure(asking, "private \ud800")
    assert "half of a surrogate pair" in error.problem
    assert not error.retryable


async def test_a_number_that_is_none_cannot_be_sent(asking: Making) -> None:
    """JSON has no word for it."""
    assert "as JSON" in (await failure(asking, settings={"temperature": float("nan")})).problem


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("HTTP_PROXY", f"odd://me:{PASSWORD}@box", "the address of a proxy"),
        ("HTTP_PROXY", f"http://me:{PASSWORD}@box:port", "the address of a proxy"),
        ("HTTP_PROXY", f"socks5://me:{PASSWORD}@box:1", "socks"),
        ("HTTP_PROXY", f"http://me:{PASSWORD}@127.0.0.1:1", "ConnectError"),
        ("SSL_CERT_FILE", "/there/is/none", "certificates"),
    ],
)
async def test_a_broken_environment_is_a_clear_error(
    variable: str, value: str, problem: str, asking: Making, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says where to look, and not what stands there."""
    monkeypatch.setenv(variable, value)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert problem in (await failure(asking)).problem


@pytest.mark.parametrize(
    "proxy", [f"me:{PASSWORD}@box:1", f"odd://me:{PASSWORD}@box", f"http://me:{PASSWORD}@box:port", "http://"]
)
def test_a_proxy_that_is_none_is_refused_and_not_shown(proxy: str) -> None:
    """Httpx would show its password."""
    with pytest.raises(OptionError) as caught:
        OpenAICompatibleModel("m", base_url="http://127.0.0.1", proxy=proxy)
    assert PASSWORD not in everything_in(caught.value)


@pytest.mark.parametrize("headers", [{"x key": PASSWORD}, {"x-ké": PASSWORD}, {"x-key": f"{PASSWORD}é"}])
def test_a_header_that_cannot_be_sent_is_refused_and_not_shown(headers: dict[str, str]) -> None:
    """Where the model is made, not at its first request."""
    with pytest.raises(OptionError) as caught:
        OpenAICompatibleModel("m", base_url="http://127.0.0.1", headers=headers)
    assert PASSWORD not in everything_in(caught.value)


async def test_blanks_around_a_header_are_left_out(asking: Making) -> None:
    """A key read from a file ends in one; the connection would show it in its error."""
    with FakeProvider(["fine"]) as server:
        async with asking(server, provider="azure", headers={"api-key": f" {PASSWORD} "}) as model:
            assert (await model.ask("hi")).text == "fine"
        assert server.requests[0].has_key(PASSWORD)


def written(key: str) -> list[str]:
    """Return the bodies in which a provider may repeat a key."""
    in_json = json.dumps(f"bad {key}")
    quoted = quote(key, safe="")
    addresses = [quoted, quote(key), re.sub("%..", lambda code: code[0].lower(), quoted)]
    return [in_json, in_json.replace("/", "\\/"), html.escape(key), *addresses]


async def test_a_key_is_hidden_however_an_answer_spells_it(asking: Making) -> None:
    """Keys in base64 have slashes and equals signs, which JSON, pages and addresses may write in ways of their own."""
    key = 'sk-a/b+c=d&e"f/SECRET=='
    bodies = written(key)
    with FakeProvider([Reply(body, 401) for body in bodies]) as server:
        async with asking(server, api_key=key) as model:
            for _ in bodies:
                with pytest.raises(ModelError) as caught:
                    await model.ask("hi")
                assert "[key]" in caught.value.body
                assert "SECRET" not in everything_in(caught.value)


def test_an_address_with_an_odd_port_is_refused() -> None:
    """At once."""
    with pytest.raises(OptionError, match="an address"):
        OpenAICompatibleModel("m", base_url="http://box:port/v1")
