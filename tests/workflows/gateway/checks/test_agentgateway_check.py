"""agentgateway's webhooks, read as agentgateway reads their replies."""

from typing import Any

import pytest

from penstock.workflows.presets import privacy
from tests.workflows.gateway.checks.served import BLOCKS, HIDES, Checks, breaks, policy

MAIL = "ann@example.com"


def read(reply: dict[str, Any]) -> tuple[str, Any]:
    """Return the action of a reply: agentgateway tries its forms in this order, and takes the first that fits."""
    action = reply["action"]
    body = action.get("body")
    if isinstance(body, dict) and (isinstance(body.get("messages"), list) or isinstance(body.get("choices"), list)):
        rows = body["messages"] if "messages" in body else [choice["message"] for choice in body["choices"]]
        if all(isinstance(row["role"], str) and isinstance(row["content"], str) for row in rows):
            return "mask", body
    if isinstance(body, str) and isinstance(action.get("status_code"), int):
        return "reject", action["status_code"]
    return "pass", None


async def asked(checks: Checks, path: str, body: Any, status: int = 200) -> tuple[str, Any]:
    """Return the action about a body."""
    return read(await checks.ask(path, {"body": body}, status))


@pytest.mark.parametrize("path", ["/request", "/agentgateway/request"])
async def test_messages_pass_are_masked_or_rejected(checks: Checks, path: str) -> None:
    """With their roles."""
    rows = [{"role": "system", "content": "Be nice"}, {"role": "user", "content": f"Mail {MAIL} please"}]
    checks.policy = policy(HIDES, BLOCKS)
    masked = [rows[0], {"role": "user", "content": "Mail [EMAIL] please"}]
    assert await asked(checks, path, {"messages": rows}) == ("mask", {"messages": masked})
    assert await asked(checks, path, {"messages": rows[:1]}) == ("pass", None)
    assert await asked(checks, path, {"messages": []}) == ("pass", None)
    rows[1]["content"] = "about Globex"
    assert await asked(checks, path, {"messages": rows}) == ("reject", 403)


@pytest.mark.parametrize("path", ["/response", "/agentgateway/response"])
async def test_choices_pass_are_masked_or_rejected(checks: Checks, path: str) -> None:
    """Each alone."""
    checks.policy = policy(HIDES, BLOCKS)

    def choices(*texts: str) -> dict[str, Any]:
        return {"choices": [{"message": {"role": "assistant", "content": text}} for text in texts]}

    assert await asked(checks, path, choices("Hi", f"It is {MAIL}.")) == ("mask", choices("Hi", "It is [EMAIL]."))
    assert await asked(checks, path, choices("Hi")) == ("pass", None)
    assert await asked(checks, path, choices("Hi", "about Globex")) == ("reject", 403)


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"messages": 1},
        {"messages": ["x"]},
        {"messages": [{"content": "x"}]},
        {"choices": [{}]},
        {"choices": [{"message": {"role": "assistant", "content": [1]}}]},
    ],
)
async def test_what_cannot_be_read_is_rejected(checks: Checks, body: Any) -> None:
    """A reply in any other form would let it pass."""
    for path in ("/request", "/response"):
        assert (await asked(checks, path, body, 400))[0] == "reject"


async def test_a_guard_that_breaks_rejects(checks: Checks) -> None:
    """Both ways."""
    checks.policy = policy(breaks)
    assert (await asked(checks, "/request", {"messages": [{"role": "user", "content": "x"}]}))[0] == "reject"


async def test_raw_messages_are_replaced_and_a_verdict_is_a_reply_that_cannot_be_read(checks: Checks) -> None:
    """There is no rejection in that form: messages that are no list are an error, which the failure mode decides."""
    rows = [
        {"role": "user", "content": [{"type": "text", "text": f"Mail {MAIL} please"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "send", "input": {"to": MAIL}}]},
    ]
    checks.policy = policy(HIDES, BLOCKS)
    said = await checks.ask("/request", {"messages": rows, "model": "claude"})
    assert MAIL not in str(said)
    assert said["messages"][1]["content"][0]["input"] == {"to": "[EMAIL]"}
    assert await checks.ask("/request", {"messages": [{"role": "user", "content": "Hi"}]}) == {}
    for row in ({"role": "user", "content": "about Globex"}, {"role": 1}):
        assert (await checks.ask("/request", {"messages": [row]}, 403))["messages"] is False
    for broken in (b"{", b'{"messages": [], "messages": []}', b'{"messages": ' + b"[" * 300 + b"]" * 300 + b"}"):
        assert (await checks.ask("/request", broken, 400))["messages"] is False


async def test_what_a_policy_adds_comes_with_the_messages(checks: Checks) -> None:
    """The note that explains placeholders to the model."""
    checks.policy = privacy()
    _, body = await asked(checks, "/request", {"messages": [{"role": "user", "content": f"Mail {MAIL} please"}]})
    assert [row["role"] for row in body["messages"]] == ["user", "system"]
