"""Codex: payloads as version 0.171.0 sends them, and answers in the form that it reads."""

from __future__ import annotations

import subprocess

import pytest

from penstock import Workflow
from penstock.processors.guards import PIIDetector, Restore
from penstock.workflows.hooks.codex import CHANGED, holding_output
from penstock.workflows.hooks.decisions import PASSED, Decision, HookCall
from tests.workflows.hooks.conftest import KEY, Call, calling

pytestmark = pytest.mark.anyio


async def test_a_prompt_with_a_key_is_blocked(codex: Call) -> None:
    """With a reason, without which Codex would let it pass."""
    assert await codex("UserPromptSubmit", turn_id="1", model="m", prompt="hello") == {}
    said = await codex("UserPromptSubmit", turn_id="1", model="m", prompt=f"use {KEY}")
    assert said["decision"] == "block"
    assert said["reason"].strip()
    assert set(said) == {"decision", "reason"}


@pytest.mark.parametrize("tool", ["Deploy", "Nuke"])
async def test_a_call_to_ask_about_is_denied_since_no_hook_can_ask(codex: Call, tool: str) -> None:
    """Codex runs a call for which a hook says ask."""
    said = await codex("PreToolUse", tool_name=tool, tool_input={"command": "x"}, tool_use_id="t1")
    said = said["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert said["permissionDecisionReason"].strip()


async def test_a_changed_call_is_allowed_with_its_new_input() -> None:
    """Codex takes an updated input only with allow."""
    detector = PIIDetector(detection_types=["api-key"], redaction_method="token", phase="input")
    call = calling("codex", Workflow("w").then(detector).then(Restore()))
    await call("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1", tool_response=f"KEY={KEY}")
    given = {"command": "deploy [API_KEY_1]"}
    said = (await call("PreToolUse", tool_name="Bash", tool_input=given, tool_use_id="t2"))["hookSpecificOutput"]
    assert said["permissionDecision"] == "allow"
    assert said["updatedInput"] == {"command": f"deploy {KEY}"}


async def test_a_changed_result_takes_the_place_of_the_original_as_the_reason(codex: Call) -> None:
    """The reason of a blocked result is what the model reads."""
    said = await codex(
        "PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1", tool_response=f"KEY={KEY}\nPORT=1\n"
    )
    assert said == {"decision": "block", "reason": f"{CHANGED}KEY=[API-KEY]\nPORT=1\n"}


async def test_a_result_without_anything_to_hide_passes(codex: Call) -> None:
    """Silence is no change."""
    assert await codex("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1", tool_response="fine") == {}


@pytest.mark.parametrize(
    ("command", "out", "code"),
    [
        ("echo a; echo b >&2; exit 3", "a\nb\n", 3),
        ("cat <<'EOF'\n$x 'y'\nEOF", "$x 'y'\n", 0),
        ("echo a # a comment", "a\n", 0),
        ("echo {}", "{}\n", 0),
    ],
)
def test_a_command_whose_output_is_held_does_the_same(command: str, out: str, code: int) -> None:
    """Its output comes at its end, with its exit code."""
    call = HookCall("PreToolUse", "s", {"tool_name": "Bash", "tool_input": {"command": command}})
    held = holding_output(call, PASSED).value["command"]
    done = subprocess.run(["/bin/bash", "-lc", held], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (out, code)


def test_only_commands_that_may_run_are_held() -> None:
    """A denial stays one, and other tools are left alone."""
    call = HookCall("PreToolUse", "s", {"tool_name": "Bash", "tool_input": {"command": "ls"}})
    assert holding_output(call, Decision("deny", "no")) == Decision("deny", "no")
    assert (
        holding_output(HookCall("PreToolUse", "s", {"tool_name": "x", "tool_input": {"command": "ls"}}), PASSED)
        is PASSED
    )
