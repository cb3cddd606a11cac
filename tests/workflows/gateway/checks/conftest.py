"""The checks behind a real server: one for all tests, since each takes a while to stop."""

import socket
from collections.abc import AsyncIterator, Iterator
from threading import Thread

import httpx
import pytest
import uvicorn

from penstock.workflows.gateway.checks import checks_app
from penstock.workflows.presets import hygiene
from tests.workflows.gateway.checks.served import LIMIT, Checks, InUse


@pytest.fixture(scope="session")
def served_checks() -> Iterator[tuple[str, InUse]]:
    """Serve the checks in a thread; give the address, and the policy in use."""
    in_use = InUse(hygiene())
    app = checks_app(lambda: in_use.policy, limit=LIMIT)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", in_use
        server.should_exit = True
        thread.join()


@pytest.fixture
async def checks(served_checks: tuple[str, InUse]) -> AsyncIterator[Checks]:
    """Ask the checks; each test begins with the policy `hygiene`."""
    address, in_use = served_checks
    in_use.policy = hygiene()
    async with httpx.AsyncClient(base_url=address, timeout=20) as client:
        yield Checks(client, in_use)
