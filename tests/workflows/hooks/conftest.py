"""What the tests of hooks share: a private home, a policy, and a hook that is called as a product would call it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from penstock import PIIDetector, Workflow
from penstock.processors.tools import ToolPolicy
from penstock.workflows.hooks.answering import PRODUCTS, answer
from penstock.workflows.hooks.decisions import HookAnswer
from penstock.workflows.hooks.guarding import HookGuard

KEY = "sk-proj-9hV2Qw8nT4bX7cZ1mK5pL3dF6gJ0rS"

Call = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own, so that no test meets a server or a stopped session of the developer."""
    for name in ("XDG_STATE_HOME", "HOME"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    with TemporaryDirectory(prefix="hook-") as short:  # the path of a socket is at most some 100 bytes long
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        yield tmp_path


def keys_hidden() -> Workflow:
    """A policy that hides keys in prompts and results, and asks about or denies some tools."""
    detector = PIIDetector(detection_types=["api-key"], redaction_method="placeholder", id="keys")
    return Workflow("keys").then(detector).then(ToolPolicy(ask=["Deploy"], deny=["Nuke"], strategy="refuse"))


def calling(product: str, workflow: Workflow) -> Call:
    """A function that calls the hook of a product with an event and fields; it returns the JSON of the answer."""
    guard = HookGuard(lambda: workflow, product)

    async def call(event: str, session: str = "s1", **fields: Any) -> Any:
        made = await raw({"hook_event_name": event, "session_id": session, "cwd": "/work", **fields})
        assert made.code in (0, 2)
        return made.err.decode() if made.code else json.loads(made.out or b"{}")

    async def raw(said: dict[str, Any]) -> HookAnswer:
        return await answer(PRODUCTS[product], json.dumps(said).encode(), guard)

    return call


@pytest.fixture
def claude() -> Call:
    """The hook of Claude Code, with `keys_hidden`."""
    return calling("claude-code", keys_hidden())


@pytest.fixture
def codex() -> Call:
    """The hook of Codex, with `keys_hidden`."""
    return calling("codex", keys_hidden())
