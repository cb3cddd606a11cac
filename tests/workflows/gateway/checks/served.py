"""The checks behind a real server, and the policy that they run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import anyio
import httpx

from penstock import PIIDetector, Processor, RegexFilterProcessor, Workflow, processor
from penstock.engine import InputContext
from penstock.workflows.gateway.checks import checks_app
from penstock.workflows.presets import hygiene
from tests.listening import listening

Body = dict[str, Any]


LIMIT = 1_000_000
"""How many bytes a body may have."""


@dataclass
class InUse:
    """The policy in use."""

    policy: Workflow


class Checks:
    """The checks at an address. Its policy may be changed between two requests."""

    def __init__(self, client: httpx.AsyncClient, in_use: InUse) -> None:
        self.client = client
        self._in_use = in_use

    @property
    def policy(self) -> Workflow:
        """The policy."""
        return self._in_use.policy

    @policy.setter
    def policy(self, policy: Workflow) -> None:
        self._in_use.policy = policy

    async def ask(self, path: str, body: Body | bytes, status: int = 200) -> Any:
        """Return the answer as JSON."""
        sent = {"content": body} if isinstance(body, bytes) else {"json": body}
        response = await self.client.post(path, **sent)
        assert response.status_code == status, response.text
        return response.json()


@asynccontextmanager
async def serving(*, limit: int = LIMIT) -> AsyncIterator[Checks]:
    """Serve the checks in this event loop."""
    in_use = InUse(hygiene())
    async with (
        listening(checks_app(lambda: in_use.policy, limit=limit)) as url,
        httpx.AsyncClient(base_url=url.removesuffix("/mcp"), timeout=20) as client,
    ):
        yield Checks(client, in_use)


@processor
def breaks(ctx: InputContext) -> None:
    """Fail, with the text in the error."""
    raise ValueError(ctx.text)


@processor
async def hangs(ctx: InputContext) -> None:
    """Never end."""
    await anyio.sleep_forever()


BLOCKS = RegexFilterProcessor(banned_words=["globex"], strategy="block", id="rivals")
"""A guard that blocks a word."""


HIDES = PIIDetector(redaction_method="placeholder")
"""A guard that writes placeholders."""


def policy(*guards: Processor[Any]) -> Workflow:
    """Return guards as a policy."""
    made = Workflow("policy")
    for guard in guards:
        made = made.then(guard)
    return made


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all texts."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in places(item, (*path, key))]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in places(item, (*path, index))]
    return [path] if isinstance(value, str) else []


def planted(value: Any, path: tuple[Any, ...], text: str) -> Any:
    """Return a copy with a text at a path."""
    made = deepcopy(value)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = text
    return made
