"""The log of the hooks' server, and the command that ends it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.workflows.hooks.stopping import stop_servers
from tests.workflows.hooks.conftest import KEY, Call
from tests.workflows.hooks.test_client import PROMPT, call, policy

__all__ = ["policy"]

PENSTOCK = [sys.executable, "-m", "penstock", "hook"]


async def test_each_thing_that_was_done_has_a_line_without_texts(
    claude: Call, caplog: pytest.LogCaptureFixture
) -> None:
    """What passes has none, and a name that holds a text is not quoted."""
    caplog.set_level(logging.INFO)
    secret = {"stdout": KEY}
    await claude("UserPromptSubmit", prompt="hello")
    await claude("UserPromptSubmit", prompt=KEY)
    await claude("PreToolUse", tool_name="Deploy", tool_input={}, tool_use_id="t1")
    await claude("PreToolUse", tool_name="Nuke", tool_input={}, tool_use_id="t2")
    await claude("PostToolUse", tool_name="Bash", tool_input={}, tool_response=secret, tool_use_id="t3")
    await claude("PostToolUse", tool_name=f"my {KEY}", tool_input={}, tool_response=secret, tool_use_id="t4")
    await claude("PostToolUseFailure", tool_name="Bash", tool_input={}, error=KEY, tool_use_id="t5")
    await claude("UserPromptSubmit", prompt="hello")
    assert [record.getMessage() for record in caplog.records] == [
        "claude-code UserPromptSubmit: denied by keys (api-key)",
        "claude-code PreToolUse Deploy: asked by tool-policy",
        "claude-code PreToolUse Nuke: denied by tool-policy",
        "claude-code PostToolUse Bash: hidden by keys (api-key)",
        "claude-code PostToolUse ?: hidden because of a value hidden before",
        "claude-code PostToolUseFailure Bash: conversation stopped because of a value hidden before",
        "claude-code UserPromptSubmit: conversation stopped",
    ]


@pytest.mark.rest
def test_a_server_is_stopped_and_its_log_says_what_it_did(policy: Path) -> None:
    """A second time there is none to stop."""
    call("claude-code", policy, PROMPT)
    made = subprocess.run([*PENSTOCK, "--stop"], capture_output=True, text=True, check=True, timeout=60)
    assert "the server of the hooks ends" in made.stderr
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "penstock"
    assert "claude-code UserPromptSubmit: denied by pii-detector (api-key)" in (folder / "hook.log").read_text()
    while stop_servers():
        pass
    made = subprocess.run([*PENSTOCK, "--stop"], capture_output=True, text=True, check=True, timeout=60)
    assert "no server of the hooks runs" in made.stderr


@pytest.mark.rest
def test_only_a_dry_run_shows_the_change(private_home: Path) -> None:
    """Installing and removing say in a line what they did."""
    file = private_home / "settings.json"
    given = [*PENSTOCK, "claude-code", "--settings", str(file), "-w", "coding-keys", "--install"]
    dry = subprocess.run([*given, "--dry-run"], capture_output=True, text=True, check=True, timeout=60)
    assert "+++" in dry.stdout
    assert not file.exists()
    made = subprocess.run(given, capture_output=True, text=True, check=True, timeout=60)
    assert (made.stdout, made.stderr.count("\n")) == ("", 1)
    assert "claude-code now asks coding-keys" in made.stderr
    gone = [*PENSTOCK, "claude-code", "--settings", str(file), "--uninstall"]
    assert "removed" in subprocess.run(gone, capture_output=True, text=True, check=True, timeout=60).stderr
