"""Claude Code: its events, and its answers (checked against version 2.1.197).

``updatedInput`` without ``permissionDecision`` changes a call and leaves the product's own permissions as they are.
``updatedToolOutput`` replaces a result if it has the shape of the tool's results; with another shape the product takes
the original one, and says so only in its log. It also lets no hook change the text of a failed call. `PostToolBatch`
shows both as the model would read them, just before the model is called, and can stop that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY
from penstock.workflows.hooks.client import stop_session
from penstock.workflows.hooks.decisions import HookAnswer, answer_of
from penstock.workflows.hooks.withheld import withheld

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.formats.wire import Json
    from penstock.workflows.hooks.decisions import Decision, HookCall, Kind

_NOTHING: tuple[str, ...] = (
    "Setup",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "Notification",
    "PostCompact",
    "TeammateIdle",
    "TaskCompleted",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "MessageDisplay",
    "PermissionDenied",
)


class ClaudeCode:
    """The hooks of Claude Code; see `Product`."""

    name = "claude-code"
    events: Mapping[str, Kind] = {
        "UserPromptSubmit": "prompt",
        "UserPromptExpansion": "prompt",
        "PreCompact": "prompt",
        "PreToolUse": "call",
        "PermissionRequest": "permission",
        "PostToolUse": "result",
        "PostToolUseFailure": "results",
        "PostToolBatch": "results",
        "SessionStart": "start",
        "SessionEnd": "end",
        **dict.fromkeys(_NOTHING, "nothing"),
    }
    installed = (
        "SessionStart",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "PreCompact",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "SessionEnd",
    )
    envelope = frozenset(
        {
            "session_id",
            "transcript_path",
            "cwd",
            "prompt_id",
            "permission_mode",
            "agent_id",
            "agent_type",
            "effort",
            "hook_event_name",
            "session_title",
            "trigger",
            "expansion_type",
            "command_source",
        }
    )

    def written(self, call: HookCall, kind: Kind, decision: Decision) -> HookAnswer:
        """Return the answer for a decision about a prompt, a call or results."""
        if decision.action == "pass":
            return HookAnswer()
        if kind == "call":
            return _about_call(decision)
        if kind == "result":
            return _about_result(call, decision)
        if kind == "results":
            stop_session(call.session, [call.call_id, *call.batch_ids])
            said: Json = {"continue": False, "stopReason": decision.reason}
        elif kind == "permission":
            refusal: Json = {"behavior": "deny", "message": decision.reason}
            return answer_of({"hookSpecificOutput": {"hookEventName": call.event, "decision": refusal}})
        else:
            said = _suppressed if call.event == "UserPromptSubmit" else EMPTY
        return answer_of({"decision": "block", "reason": decision.reason, **said})


_suppressed: Json = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": True}}


def _about_call(decision: Decision) -> HookAnswer:
    said: Json = {"hookEventName": "PreToolUse"}
    if decision.action in ("ask", "deny"):
        said |= {"permissionDecision": decision.action, "permissionDecisionReason": decision.reason}
    if decision.action != "deny" and decision.value is not None:
        said["updatedInput"] = decision.value
    return answer_of({"hookSpecificOutput": said})


def _about_result(call: HookCall, decision: Decision) -> HookAnswer:
    said: Json = {"hookEventName": "PostToolUse"}
    if decision.action == "change":
        said["updatedToolOutput"] = decision.value
    else:
        said["updatedToolOutput"] = withheld(call.said.get("tool_response"), decision.reason)
    return answer_of({"hookSpecificOutput": said})
