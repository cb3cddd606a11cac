"""Claude Code: payloads as version 2.1.197 sends them, and answers in the form that it reads."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from penstock import Workflow, processor
from penstock.engine.processor.context import ToolResultContext
from penstock.formats.wire import Json
from penstock.processors.guards import PIIDetector, Restore
from penstock.processors.tools import ToolPolicy
from tests.workflows.hooks.conftest import KEY, Call, calling

pytestmark = pytest.mark.anyio


async def test_a_prompt_without_anything_to_hide_passes_without_a_word(claude: Call) -> None:
    """Silence leaves everything to the product."""
    assert await claude("UserPromptSubmit", prompt="rename the function") == {}


async def test_a_prompt_with_a_key_is_blocked_and_not_shown_again(claude: Call) -> None:
    """No hook can change a prompt, so it is denied; the reason names the kind, and quotes nothing."""
    said = await claude("UserPromptSubmit", prompt=f"use {KEY}")
    assert said["decision"] == "block"
    assert "api-key" in said["reason"]
    assert KEY not in str(said)
    assert said["hookSpecificOutput"]["suppressOriginalPrompt"] is True


async def test_the_arguments_of_a_slash_command_are_a_prompt(claude: Call) -> None:
    """Each field that is not the envelope's is read."""
    fields = {"expansion_type": "command", "command_name": "fix", "command_source": "project"}
    assert await claude("UserPromptExpansion", **fields, command_args="all", prompt="/fix all") == {}
    said = await claude("UserPromptExpansion", **fields, command_args=KEY, prompt="/fix")
    assert said["decision"] == "block"


async def test_a_call_that_no_rule_is_about_passes_to_the_products_own_permissions(claude: Call) -> None:
    """It does not say allow, which would skip the permissions."""
    assert await claude("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t1") == {}


@pytest.mark.parametrize(("tool", "decision"), [("Deploy", "ask"), ("Nuke", "deny")])
async def test_a_tool_policy_asks_and_denies_with_a_reason(claude: Call, tool: str, decision: str) -> None:
    """Asked about is asked, refused is denied."""
    said = (await claude("PreToolUse", tool_name=tool, tool_input={}, tool_use_id="t1"))["hookSpecificOutput"]
    assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", decision)
    assert tool in said["permissionDecisionReason"]


async def test_a_guard_that_blocks_a_call_denies_it() -> None:
    """A verdict of the run is a denial with its reason."""
    call = calling("claude-code", Workflow("w").then(ToolPolicy(deny=["Bash"])))
    said = await call("PreToolUse", tool_name="Bash", tool_input={"command": "x"}, tool_use_id="t1")
    assert said["hookSpecificOutput"]["permissionDecision"] == "deny"


async def test_a_changed_call_is_an_updated_input_that_keeps_the_permissions(claude: Call) -> None:
    """A key in an argument is hidden from the tool."""
    given = {"url": "https://example.com", "prompt": f"send {KEY}"}
    said = await claude("PreToolUse", tool_name="WebFetch", tool_input=given, tool_use_id="t1")
    assert said["hookSpecificOutput"] == {
        "hookEventName": "PreToolUse",
        "updatedInput": {"url": "https://example.com", "prompt": "send [API-KEY]"},
    }


async def test_a_changed_result_keeps_its_shape(claude: Call) -> None:
    """Claude Code takes the original result for one of another shape."""
    file = {"filePath": "/w/.env", "content": f"KEY={KEY}\nPORT=1\n", "numLines": 3, "startLine": 1, "totalLines": 3}
    said = await claude(
        "PostToolUse",
        tool_name="Read",
        tool_input={"file_path": "/w/.env"},
        tool_use_id="t1",
        tool_response={"type": "text", "file": file},
    )
    updated = said["hookSpecificOutput"]["updatedToolOutput"]
    assert updated == {"type": "text", "file": {**file, "content": "KEY=[API-KEY]\nPORT=1\n"}}


async def test_a_blocked_result_is_withheld_in_its_shape() -> None:
    """The model reads the reason in place of the text."""
    call = calling("claude-code", Workflow("w").then(PIIDetector(detection_types=["api-key"], strategy="block")))
    response = {"type": "text", "file": {"filePath": "/w/a", "content": KEY, "numLines": 1}}
    said = await call("PostToolUse", tool_name="Read", tool_input={}, tool_use_id="t1", tool_response=response)
    updated = said["hookSpecificOutput"]["updatedToolOutput"]
    assert updated["type"] == "text"
    assert updated["file"]["numLines"] == 1
    assert "Penstock" in updated["file"]["content"]
    assert KEY not in str(said)


async def test_the_batch_passes_after_a_result_was_withheld() -> None:
    """The product says in its own words that nothing is there."""
    call = calling("claude-code", Workflow("w").then(PIIDetector(detection_types=["api-key"], strategy="block")))
    given = {"file_path": "/w/a long path/of a file.txt"}
    response = {
        "type": "text",
        "file": {"filePath": given["file_path"], "content": f"text\nfile\n{KEY}", "numLines": 3},
    }
    await call("PostToolUse", tool_name="Read", tool_input=given, tool_use_id="t1", tool_response=response)
    shown = f"<system-reminder>the file {given['file_path']} has no text and no content</system-reminder>"
    made: Json = {"tool_name": "Read", "tool_input": given, "tool_use_id": "t1", "tool_response": shown}
    assert await call("PostToolBatch", tool_calls=[made]) == {}
    made["tool_response"] = f"1\ttext\n2\tfile\n3\t{KEY}"
    assert (await call("PostToolBatch", tool_calls=[made]))["continue"] is False


async def test_the_batch_passes_if_the_product_took_the_changed_result(claude: Call) -> None:
    """The product numbers the lines of what it took."""
    response = {"stdout": f"KEY={KEY}\nPORT=8080", "stderr": ""}
    await claude("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1", tool_response=response)
    call: Json = {
        "tool_name": "Bash",
        "tool_input": {},
        "tool_use_id": "t1",
        "tool_response": "1\tKEY=[API-KEY]\n2\tPORT=8080",
    }
    assert await claude("PostToolBatch", tool_calls=[call]) == {}


async def test_the_batch_stops_the_agent_if_the_product_took_the_original(claude: Call) -> None:
    """And nothing of that session reaches the model any more, whatever comes."""
    response = {"stdout": f"KEY={KEY}\nPORT=8080", "stderr": ""}
    await claude("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1", tool_response=response)
    call: Json = {
        "tool_name": "Bash",
        "tool_input": {},
        "tool_use_id": "t1",
        "tool_response": f"1\tKEY={KEY}\n2\tPORT=8080",
    }
    said = await claude("PostToolBatch", tool_calls=[call])
    assert said["continue"] is False
    assert (await claude("UserPromptSubmit", prompt="go on"))["decision"] == "block"
    assert (await claude("PreCompact", trigger="manual", custom_instructions=""))["decision"] == "block"
    assert await claude("UserPromptSubmit", session="s2", prompt="go on") == {}


async def test_a_failed_call_whose_error_holds_a_key_stops_the_agent(claude: Call) -> None:
    """No hook can change the text of a failed call, and PostToolUse is not called for one."""
    call: Json = {"tool_name": "Bash", "tool_input": {"command": "cat .env; false"}, "tool_use_id": "t1"}
    passed = await claude("PostToolBatch", tool_calls=[{**call, "tool_response": "Exit code 1\nno such file"}])
    assert passed == {}
    leaked = {**call, "tool_use_id": "t2", "tool_response": f"Exit code 1\nKEY={KEY}"}
    said = await claude("PostToolBatch", tool_calls=[leaked])
    assert said["continue"] is False
    assert KEY not in str(said)


async def test_what_was_hidden_in_a_result_is_restored_in_a_call() -> None:
    """The session keeps the values, if the policy restores."""
    detector = PIIDetector(detection_types=["api-key"], redaction_method="token", phase="input")
    call = calling("claude-code", Workflow("w").then(detector).then(Restore()))
    response = {"stdout": f"KEY={KEY}", "stderr": ""}
    said = await call("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id="t1", tool_response=response)
    assert said["hookSpecificOutput"]["updatedToolOutput"]["stdout"] == "KEY=[API_KEY_1]"
    given = {"command": "deploy --key [API_KEY_1]"}
    said = await call("PreToolUse", tool_name="Bash", tool_input=given, tool_use_id="t2")
    assert said["hookSpecificOutput"]["updatedInput"]["command"] == f"deploy --key {KEY}"
    assert await call("PreToolUse", session="s2", tool_name="Bash", tool_input=given, tool_use_id="t3") == {}


async def test_the_untrusted_tools_of_a_session_count_in_later_calls() -> None:
    """A flow of a tool policy goes over several calls of the hook."""
    policy = ToolPolicy(untrusted=["WebFetch"], sensitive=["Bash"], flow="ask")
    call = calling("claude-code", Workflow("w").then(policy))
    bash = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    assert await call("PreToolUse", **bash) == {}
    await call("PostToolUse", tool_name="WebFetch", tool_input={}, tool_use_id="t2", tool_response={"result": "a page"})
    said = await call("PreToolUse", **bash)
    assert said["hookSpecificOutput"]["permissionDecision"] == "ask"
    await call("SessionEnd", reason="clear")
    assert await call("PreToolUse", **bash) == {}


async def test_limits_of_a_tool_policy_count_over_the_session() -> None:
    """The states of processors are the session's."""
    call = calling("claude-code", Workflow("w").then(ToolPolicy(limits={"Bash": 1}, strategy="refuse")))
    bash = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    assert await call("PreToolUse", **bash) == {}
    assert (await call("PreToolUse", **bash))["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert await call("PreToolUse", session="s2", **bash) == {}


async def test_an_event_that_no_table_knows_is_read_whole(claude: Call) -> None:
    """It can only be refused, by the exit code."""
    assert await claude("SomethingNew", detail={"deep": ["fine"]}) == {}
    said = await claude("SomethingNew", detail={"deep": [f"a {KEY}"]})
    assert "api-key" in said
    assert KEY not in said


@pytest.mark.parametrize("event", ["Stop", "SessionStart", "Notification", "SubagentStop", "SessionEnd"])
async def test_events_that_bring_the_model_nothing_pass(claude: Call, event: str) -> None:
    """To refuse the end of an answer would make the agent go on."""
    assert await claude(event, message=f"a {KEY}", last_assistant_message=KEY) == {}


async def test_a_permission_dialog_is_answered_only_to_deny(claude: Call) -> None:
    """A person who is asked is not answered for."""
    assert await claude("PermissionRequest", tool_name="Deploy", tool_input={}, tool_use_id="t1") == {}
    said = await claude("PermissionRequest", tool_name="Nuke", tool_input={}, tool_use_id="t1")
    assert said["hookSpecificOutput"]["decision"]["behavior"] == "deny"


async def test_results_that_are_checked_at_once_number_their_values_apart() -> None:
    """The values of a session build up call by call, although tools run side by side."""
    detector = PIIDetector(detection_types=["api-key"], redaction_method="token", phase="input")
    call = calling("claude-code", Workflow("w").then(waits).then(detector).then(Restore()))
    values = [KEY[:-1] + letter for letter in "abcdefgh"]

    async def read(number: int) -> None:
        response = {"stdout": f"KEY={values[number]}", "stderr": ""}
        await call("PostToolUse", tool_name="Bash", tool_input={}, tool_use_id=f"t{number}", tool_response=response)

    async with anyio.create_task_group() as group:
        for number in range(len(values)):
            group.start_soon(read, number)
    given = {"command": " ".join(f"[API_KEY_{number + 1}]" for number in range(len(values)))}
    said = await call("PreToolUse", tool_name="Bash", tool_input=given, tool_use_id="t9")
    assert set(said["hookSpecificOutput"]["updatedInput"]["command"].split()) == set(values)


@processor
async def waits(ctx: ToolResultContext) -> None:
    """Lets other tasks run."""
    await anyio.lowlevel.checkpoint()


async def test_a_value_that_was_hidden_once_is_hidden_without_its_label_too(claude: Call) -> None:
    """In later results and prompts of the session, and in no other session."""
    bash: Json = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1"}
    await claude("PostToolUse", **bash, tool_response={"stdout": "A=1\nDB_PASSWORD=hunter2xyz\nB=2", "stderr": ""})
    said = await claude("PostToolUse", **bash, tool_response={"stdout": "got hunter2xyz", "stderr": ""})
    assert said["hookSpecificOutput"]["updatedToolOutput"]["stdout"] == "got [API-KEY]"
    assert (await claude("UserPromptSubmit", prompt="why hunter2xyz?"))["decision"] == "block"
    failed: Json = {**bash, "tool_use_id": "t2", "tool_response": "Exit code 1\nhunter2xyz"}
    assert await claude("PostToolUse", session="s2", **bash, tool_response={"stdout": "got hunter2xyz"}) == {}
    assert (await claude("PostToolBatch", tool_calls=[failed]))["continue"] is False


async def test_a_copy_of_a_stopped_conversation_is_stopped_too(claude: Call, tmp_path: Path) -> None:
    """A fork has another id; its transcript has the same calls."""
    failed: Json = {
        "tool_name": "Bash",
        "tool_input": {},
        "tool_use_id": "toolu_1",
        "tool_response": f"Exit code 1\n{KEY}",
    }
    await claude("PostToolBatch", tool_calls=[failed])
    transcript = tmp_path / "copy.jsonl"
    transcript.write_text('{"tool_use_id": "toolu_2"}\n')
    assert await claude("UserPromptSubmit", session="s2", transcript_path=str(transcript), prompt="go on") == {}
    transcript.write_text('{"tool_use_id": "toolu_1"}\n')
    for _ in range(2):
        said = await claude("UserPromptSubmit", session="s3", transcript_path=str(transcript), prompt="go on")
        assert said["decision"] == "block"


async def test_a_fork_of_a_stopped_conversation_is_known_before_it_has_a_transcript(claude: Call) -> None:
    """Claude Code starts it under the old id; every other new conversation has a start of its own."""
    failed: Json = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1", "tool_response": f"Exit code 1\n{KEY}"}
    await claude("PostToolBatch", tool_calls=[failed])
    await claude("SessionStart", source="resume", transcript_path="/p/s1.jsonl")
    said = await claude("UserPromptSubmit", session="s2", transcript_path="/p/s2.jsonl", prompt="go on")
    assert said["decision"] == "block"
    await claude("SessionStart", session="s3", source="startup", transcript_path="/p/s3.jsonl")
    assert await claude("UserPromptSubmit", session="s3", transcript_path="/p/s3.jsonl", prompt="go on") == {}
    assert await claude("UserPromptSubmit", session="s4", transcript_path="/q/s4.jsonl", prompt="go on") == {}
