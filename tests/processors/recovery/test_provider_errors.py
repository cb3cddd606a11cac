"""What is read from errors of many makers, and of which kind they are taken to be."""

from __future__ import annotations

import json
import ssl
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from penstock import ModelError
from penstock.processors.recovery import is_bad_request_error
from penstock.processors.recovery.provider_errors import causes, read_error
from penstock.processors.recovery.stream_error_retry import retry_reason

NAMES = [
    *("status", "status_code", "statusCode", "code", "type", "reason", "body", "data", "response_body", "error"),
    *("message", "headers", "responseHeaders", "retry-after", "x-should-retry", "retryable", "isRetryable"),
    *("retry_after", "response", "cause", "exceptions", "Error", "ResponseMetadata", "is_stream_consumed", "text"),
]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = httpx.Request("POST", "http://localhost/v1/chat/completions")


class SDKError(Exception):
    """An error of some library, with the attributes that it is given."""

    def __init__(self, message: str = "it failed", **attributes: object) -> None:
        super().__init__(message)
        vars(self).update(attributes)


def named(name: str, *bases: type[Exception]) -> Exception:
    """Return an error whose class has that name, as the one of a library that is not installed here."""
    return type(name, bases or (Exception,), {})("it failed")


def answered(status: int, body: Any = "", **headers: str) -> httpx.HTTPStatusError:
    """Return what httpx raises for an answer, which has been read."""
    text = body if isinstance(body, str) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, text=text, headers=named, request=REQUEST)
    return httpx.HTTPStatusError("no", request=REQUEST, response=response)


def kind(error: object) -> str | None:
    """Return the kind of an error that is worth another try; None if it is not."""
    found = retry_reason(error, (), NOW, unknown=False)
    return None if found is None else found.kind


def wait(error: object) -> float | None:
    """Return for how many seconds an error asks to wait."""
    return read_error(error, NOW).wait


PASSES: list[tuple[str, object]] = [
    ("rate-limit", ModelError("m", "slow", status=429, retryable=True)),
    ("overloaded", ModelError("m", "full", status=503, retryable=True)),
    ("server", ModelError("m", "late", status=200, code="server_error", retryable=True)),
    ("connection", ModelError("m", "the answer broke off before its end", retryable=True)),
    ("timeout", ModelError("m", "there was no whole answer within 5 seconds", retryable=True)),
    ("rate-limit", SDKError(status_code=429)),
    ("rate-limit", SDKError(status=429, message="aiohttp")),
    ("server", SDKError(status_code=500)),
    ("server", SDKError(status_code=409)),
    ("overloaded", SDKError(status_code=529)),
    ("timeout", SDKError(status_code=504)),
    ("timeout", SDKError(status_code=408)),
    ("overloaded", SDKError(body={"type": "error", "error": {"type": "overloaded_error"}})),  # anthropic, in a stream
    ("server", SDKError(body={"type": "error", "error": {"type": "api_error"}})),
    ("server", SDKError(code="server_error", type="server_error", body={"message": "oh"})),  # openai, in a stream
    ("rate-limit", SDKError(code=429, status="RESOURCE_EXHAUSTED")),  # google
    ("rate-limit", SDKError(code=429, details=None, response=None)),
    ("overloaded", SDKError(body='[{"error": {"code": 503, "status": "UNAVAILABLE"}}]')),
    ("server", SDKError(body={"error": {"code": 502, "message": "bad gateway"}})),  # openrouter
    ("rate-limit", SDKError(response={"Error": {"Code": "ThrottlingException"}})),  # botocore
    ("server", SDKError(response={"ResponseMetadata": {"HTTPStatusCode": 500}, "Error": {"Code": "X"}})),
    ("rate-limit", answered(429)),
    ("rate-limit", answered(400, {"error": {"code": "rate_limit_exceeded"}})),
    ("server", SDKError(response=SimpleNamespace(status_code=500, headers={}))),
    ("other", SDKError(is_retryable=True, status_code=400)),
    ("other", SDKError(status_code=400, response=SimpleNamespace(headers={"x-should-retry": "true"}))),
    ("connection", SDKError(retryable=True)),
    ("timeout", TimeoutError()),
    ("connection", ConnectionResetError()),
    ("timeout", httpx.ReadTimeout("slow")),
    ("connection", httpx.RemoteProtocolError("cut")),
    ("connection", named("APIConnectionError")),
    ("timeout", named("APITimeoutError", type(named("APIConnectionError")))),
    ("connection", named("ClientPayloadError")),
    ("server", {"type": "response.failed", "response": {"error": {"code": "server_error"}}}),
    ("other", {"type": "error", "error": {"code": "x", "message": "You can retry your request."}}),
    ("rate-limit", ExceptionGroup("several", [ValueError("no"), SDKError(status_code=429)])),
]

LASTS: list[object] = [
    ModelError("m", "no", status=400),
    ModelError("m", "no", status=500),  # it says so itself: x-should-retry
    ModelError("m", "used up", status=429, code="insufficient_quota", retryable=True),
    SDKError(status_code=401),
    SDKError(status_code=403, code="rate_limit_of_permission_denied"),
    SDKError(status_code=429, code="insufficient_quota"),
    SDKError(status_code=402),
    SDKError(status_code=404),
    SDKError(status_code=503, retryable=False),
    SDKError(status_code=True, code=True, retryable="yes"),
    answered(422, {"error": {"message": "shorten it and try again later"}}),
    httpx.UnsupportedProtocol("ftp"),
    httpx.LocalProtocolError("odd"),
    ssl.SSLCertVerificationError("who are you"),
    ValueError("please retry"),
    {"type": "error", "error": {"code": "x", "message": "Do not retry your request."}},
    {"type": "text-delta", "error": {"message": "You can retry your request."}},
]


@pytest.mark.parametrize(("expected", "error"), PASSES, ids=lambda value: str(value)[:40])
def test_what_passes_is_known_by_what_is_said(expected: str, error: object) -> None:
    """Statuses, codes, flags, names: whoever made the error."""
    assert kind(error) == expected


@pytest.mark.parametrize("error", LASTS, ids=lambda value: str(value)[:40])
def test_what_does_not_pass_is_let_be(error: object) -> None:
    """Bad requests, refused keys, used-up accounts, mistakes in code."""
    assert kind(error) is None


def test_an_error_is_read_through_what_it_came_of() -> None:
    """Wrapped with a cause, wrapped by accident, or hidden on purpose."""
    inner = SDKError(status_code=429)
    wrapped, by_accident, hidden = RuntimeError(), RuntimeError(), RuntimeError()
    wrapped.__cause__ = inner
    by_accident.__context__ = inner
    hidden.__context__, hidden.__suppress_context__ = inner, True  # as `raise ... from None` does
    assert [kind(error) for error in (wrapped, by_accident, hidden)] == ["rate-limit", "rate-limit", None]


def test_a_refusal_is_not_talked_over_by_guesses_about_its_cause() -> None:
    """Only what says Yes itself does that."""
    error = ModelError("m", "no", status=400)
    error.__cause__ = SDKError(status_code=500)
    assert kind(error) is None
    error.__cause__ = SDKError(retryable=True, status_code=500)
    assert kind(error) == "server"


def test_causes_may_go_round_in_circles() -> None:
    """Each error is looked at once, however they hang together; and a long chain has an end."""
    one, other = SDKError("one"), SDKError("other")
    one.__cause__, other.__cause__ = other, one
    assert list(causes(one)) == [one, other]
    last: BaseException = SDKError("first")
    for _ in range(500):
        new = SDKError("next")
        new.__cause__ = last
        last = new
    assert len(list(causes(last))) == 50


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        (2.5, ModelError("m", "slow", retry_after=2.5)),
        (0.0, SDKError(retry_after=-3)),
        (None, SDKError(retry_after=float("inf"))),
        (None, SDKError(retry_after="soon")),
        (1.5, answered(429, retry_after="1.5")),
        (0.25, answered(429, retry_after="9", retry_after_ms="250")),
        (90.0, answered(429, retry_after="Thu, 01 Jan 2026 00:01:30 GMT")),
        (90.0, answered(429, retry_after="Thu, 01 Jan 2026 00:01:30 -0000")),
        (0.0, answered(429, retry_after="Thu, 01 Jan 2015 00:00:00 GMT")),
        (None, answered(429, retry_after="nan")),
        (None, answered(429, retry_after="Thu, 99 Foo")),
        (3.0, SDKError(headers={"Retry-After": 3})),
        (3.0, SDKError(response=SimpleNamespace(headers={"RETRY-AFTER": "3"}))),
        (None, SDKError(headers=["odd"])),
        (17.5, SDKError(body={"error": {"details": [{"@type": "RetryInfo", "retryDelay": "17.5s"}]}})),
        (17.0, answered(429, {"error": {"details": [{"retryDelay": "17s"}]}})),
        (1.898, SDKError(body={"error": {"message": "Rate limit reached. Please try again in 1.898s."}})),
        (0.02, SDKError("Please try again in 20ms.")),
        (366.0, SDKError("Please try again in 6m6s.")),
        (120.0, SDKError("Please try again in 2m.")),
        (None, SDKError("Please try again in a while.")),
        (None, SDKError(body={"odd": {1, 2}})),
    ],
    ids=str,
)
def test_the_wait_that_is_asked_for_is_read(seconds: float | None, error: object) -> None:
    """From attributes, headers, bodies and words; in seconds, milliseconds, minutes, or as a date."""
    assert wait(error) == pytest.approx(seconds)


def test_an_answer_that_was_not_read_is_left_alone() -> None:
    """Reading it might wait for the network."""

    class Unread:
        """An answer whose text is still to come."""

        status_code = 500
        is_stream_consumed = False

        @property
        def text(self) -> str:
            raise AssertionError("it was read")

    assert kind(SDKError(response=Unread())) == "server"


def test_attributes_that_raise_say_nothing() -> None:
    """Properties of strangers do as they like."""

    class OddError(Exception):
        """An error with a property that does not work."""

        @property
        def response(self) -> object:
            raise RuntimeError("not set")

    assert kind(OddError("it failed")) is None


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (True, ModelError("m", "no", status=400)),
        (True, SDKError(status_code=400)),
        (True, SDKError(status=400)),
        (True, answered(400)),
        (False, SDKError(status_code=422)),
        (False, ValueError("400")),
    ],
)
def test_a_bad_request_is_known_by_its_status(expected: bool, error: object) -> None:
    """By either name."""
    assert is_bad_request_error(error) is expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 600)
    | st.floats()
    | st.sampled_from(["error", "response.failed", "server_error", "{", '{"error": {"code": 429}}', "1.5", "true", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=8), st.booleans())
def test_any_error_can_be_read(attributes: dict[str, Any], mapping: bool) -> None:
    """Whatever stands where something is looked for, as attributes or in an event: it is judged; waits are waits."""
    error = attributes if mapping else SDKError("odd")
    if not mapping:
        vars(error).update(attributes)
    for unknown in (False, True):
        found = retry_reason(error, (), NOW, unknown=unknown)
        assert found is None or found.wait is None or 0 <= found.wait < float("inf")
    assert is_bad_request_error(error) in (True, False)


def test_an_error_that_cannot_be_shown_is_read_all_the_same() -> None:
    """Its message may be broken."""

    class MuteError(Exception):
        """An error whose text cannot be made."""

        status_code = 500

        def __str__(self) -> str:
            raise ValueError("no text")

    assert kind(MuteError()) == "server"
