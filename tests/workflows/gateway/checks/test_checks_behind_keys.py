"""The checks within the gateway: whoever has no key is refused in the form of the product; the log has the verdicts."""

import json

import aiohttp
import pytest

from penstock.workflows.gateway.config.client_keys import line_of_key, new_key
from penstock.workflows.gateway.config.reading import read_gateway
from penstock.workflows.gateway.serving.gateway import Gateway

PORTKEY = {"eventType": "beforeRequestHook", "request": {"json": {"messages": [{"role": "user", "content": "Hi"}]}}}
ROW = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    ("path", "body", "status", "says_no"),
    [
        ("/portkey", PORTKEY, 200, lambda said: said["verdict"] is False),
        ("/request", {"body": {"messages": [ROW]}}, 401, lambda said: isinstance(said["action"]["status_code"], int)),
        (
            "/request",
            {"messages": [ROW]},
            401,
            lambda said: said["messages"] is False,
        ),
        ("/beta/litellm_basic_guardrail_api", {}, 401, lambda said: said["action"] == "BLOCKED"),
        ("/v1/moderations", {"input": "Hi"}, 401, lambda said: said["error"]["message"]),
        ("/v1/check", {"text": "Hi"}, 401, lambda said: said["error"]["problem"]),
    ],
)
async def test_who_has_no_key_gets_a_no(serving, tmp_path, path, body, status, says_no) -> None:
    """Portkey takes an error for a pass, and agentgateway any reply that it does not know."""
    (tmp_path / "keys.txt").write_text(f"{line_of_key('a', new_key())}\n")
    (tmp_path / "guard.yaml").write_text("penstock: 1\nsteps: [hygiene]\n")
    (tmp_path / "gateway.yaml").write_text("gateway: 1\nchecks: guard.yaml\nkeys: keys.txt\nlog: {format: none}\n")
    made = Gateway(lambda: read_gateway(tmp_path / "gateway.yaml"))
    async with (
        serving(made) as (base, _),
        aiohttp.ClientSession() as session,
        session.post(base + path, json=body) as reply,
    ):
        said = json.loads(await reply.text())
        assert reply.status == status
    assert says_no(said)


POLICY = """\
penstock: 1
steps:
  - {use: regex-filter, id: words, with: {rules: [{name: word, pattern: planted}]}}
  - {use: pii-detector, with: {strategy: redact}}
"""


def messages(text):
    """A conversation of one message."""
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/check", lambda text: {"text": text}),
        ("/v1/moderations", lambda text: {"input": ["Hi", text]}),
        ("/beta/litellm_basic_guardrail_api", lambda text: {"texts": [text], "input_type": "request"}),
        ("/request", lambda text: {"body": messages(text)}),
        ("/portkey", lambda text: {"eventType": "beforeRequestHook", "request": {"json": messages(text)}}),
    ],
)
async def test_the_log_has_the_verdict_of_a_check_and_its_step(serving, tmp_path, caplog, path, body) -> None:
    """As that of a completion, whatever the product is told; it has no text."""
    (tmp_path / "guard.yaml").write_text(POLICY)
    (tmp_path / "gateway.yaml").write_text("gateway: 1\nchecks: guard.yaml\n")
    caplog.set_level("INFO", "penstock.gateway.access")
    served = []
    made = Gateway(lambda: read_gateway(tmp_path / "gateway.yaml"), on_served=served.append)
    async with serving(made) as (base, _), aiohttp.ClientSession() as session:
        for text in ("a planted word", "mail ann@example.com", "Hi"):
            async with session.post(base + path, json=body(text)) as reply:
                await reply.read()
        async with session.get(base + "/metrics") as reply:
            page = await reply.text()
    checks = [one for one in served if one.endpoint == f"check {path}"]
    assert [(one.outcome, one.step, one.stage, one.edited) for one in checks] == [
        ("blocked", "words", "process_input", False),
        ("ok", "", "", True),
        ("ok", "", "", False),
    ]
    assert "step=words stage=process_input" in caplog.text
    assert not any(word in caplog.text for word in ("planted", "ann@"))
    assert 'verdicts_total{route="",step="words",stage="process_input"} 1' in page
