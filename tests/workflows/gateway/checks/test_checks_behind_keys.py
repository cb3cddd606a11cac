"""The checks within the gateway: whoever has no key is refused in the form of the product."""

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
