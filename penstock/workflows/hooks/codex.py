"""Codex: its events, and its answers (checked against version 0.171.0).

Its hooks cannot ask a person, so a call to ask about is denied. They cannot replace a result either, but the reason of
a blocked one takes the result's place in the conversation: so the guarded version is the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.formats.wire import is_object
from penstock.workflows.hooks.decisions import Decision, HookAnswer, answer_of
from penstock.workflows.hosting.answers import as_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.formats.wire import Json, Value
    from penstock.workflows.hooks.decisions import HookCall, Kind

CHANGED = "Penstock has hidden parts of this result. The rest is as the tool wrote it:\n"
"""What stands before the guarded version of a result."""

_CANNOT_ASK = "; Codex lets no hook ask a person, so run it yourself if you want it to run"


class Codex:
    """The hooks of Codex; see `Product`."""

    name = "codex"
    events: Mapping[str, Kind] = {
        "UserPromptSubmit": "prompt",
        "PreToolUse": "call",
        "PermissionRequest": "permission",
        "PostToolUse": "result",
        "SessionEnd": "end",
        **dict.fromkeys(
            (
                "SessionStart",
                "SubagentStart",
                "SubagentStop",
                "Stop",
                "StopFailure",
                "Interrupt",
                "PreCompact",
                "PostCompact",
            ),
            "nothing",
        ),
    }
    installed = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "SessionEnd")
    envelope = frozenset(
        {
            "session_id",
            "turn_id",
            "transcript_path",
            "cwd",
            "model",
            "permission_mode",
            "agent_id",
            "agent_type",
            "hook_event_name",
        }
    )

    def written(self, call: HookCall, kind: Kind, decision: Decision) -> HookAnswer:
        """Return the answer for a decision about a prompt, a call or a result."""
        if decision.action == "pass":
            return HookAnswer()
        if kind == "call":
            return _about_call(decision)
        if kind == "permission":
            refusal: Json = {"behavior": "deny", "message": decision.reason}
            return answer_of({"hookSpecificOutput": {"hookEventName": call.event, "decision": refusal}})
        changed = kind == "result" and decision.action == "change"
        reason = CHANGED + as_text(decision.value) if changed else decision.reason
        return answer_of({"decision": "block", "reason": reason})


_HELD = """penstock_out=$(mktemp) || exit 1
(
{}
) >"$penstock_out" 2>&1 </dev/null
penstock_code=$?
cat "$penstock_out"
rm "$penstock_out"
exit "$penstock_code"
"""


def holding_output(call: HookCall, decision: Decision) -> Decision:
    """Return a decision that lets a command write nothing before it ends, so that a hook reads all of its output.

    Codex calls no hook for the output of a command that still runs.
    """
    given: Value = call.said.get("tool_input") if decision.value is None else decision.value
    if decision.action not in ("pass", "change") or call.text("tool_name") != "Bash" or not is_object(given):
        return decision
    command = given.get("command")
    if not isinstance(command, str):
        return decision
    return Decision("change", decision.reason, {**given, "command": _HELD.replace("{}", command)})


def _about_call(decision: Decision) -> HookAnswer:
    said: Json = {"hookEventName": "PreToolUse"}
    if decision.action == "change":
        said |= {"permissionDecision": "allow", "updatedInput": decision.value}
    else:
        ending = _CANNOT_ASK if decision.action == "ask" else ""
        said |= {"permissionDecision": "deny", "permissionDecisionReason": decision.reason + ending}
    return answer_of({"hookSpecificOutput": said})
