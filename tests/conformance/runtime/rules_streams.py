"""Where a stream differs from the reference's on purpose; rules as in `rules`, which they continue."""

from __future__ import annotations

import re
from typing import Any

from tests.conformance.runtime.projection import project
from tests.conformance.runtime.rules import Path

_ALL = ("start", "step-start", "text-start", "text-delta", "text-delta", "text-end", "step-finish", "finish")
_CONTROL = ("start", "step-start", "step-finish", "finish")


def a_hook_sees_what_it_was_given(given: Any, _path: Path, theirs: Any) -> Any:
    """What a hook can keep of the stream is what its predecessors passed on, not what came from the model."""
    dropped = re.findall(r'"(\w+ ?)"', given["outputProcessors"][0])[0]

    def own(chunks: list[str]) -> list[str]:
        kept = [chunk for chunk in chunks if chunk != f"text-delta:{dropped}"]
        return [f"text-delta:{chunk[11:].upper()}" if chunk.startswith("text-delta:") else chunk for chunk in kept]

    if isinstance(theirs[0], dict):
        return [{**entry, "streamParts": own(entry["streamParts"])} for entry in theirs]
    (first, raw), (second, again) = theirs
    return [[first, raw], [second, own(again)]]


def control_chunks_stay(given: Any, path: Path, theirs: Any) -> Any:
    """Dropping a control chunk changes nothing: it reaches the client, and the accounts are kept without it."""
    case = path[0]
    kept = {"NOT text-delta": (*_CONTROL, "text-delta"), "ALL": _CONTROL}.get(case, _ALL)
    chunks = [type for type in _ALL if type in kept]
    if path[-1] == "chunks":
        return chunks
    text = "" if case == "ALL" else "".join(given["model_turns"][0]["deltas"])
    answer = [{"role": "assistant", "parts": [text]}] if text else []
    made = {"model_calls": theirs["model_calls"], "text": text, "finishReason": "stop"}
    made |= {
        "steps": [{"text": text, "finishReason": "stop"}],
        "messages": [{"role": "user", "parts": ["Hi"]}, *answer],
    }
    usage = {"inputTokens": 10, "outputTokens": 5}
    return {**made, "chunks": chunks} if path[1] == "stream" else {**made, "usage": usage}


def a_crash_undoes_no_edit(_given: Any, path: Path, theirs: Any) -> Any:
    """A hook that crashes behind a redaction ends the stream: neither text is sent, and no later hook sees it."""
    if path[-1] == "log":
        return []
    stage = "process_output_stream"
    threw = {"error": "StepFailedError", "processor": "B", "stage": stage, "cause": "ValueError: boom"}
    return {"chunks": [*theirs["chunks"][:2], {"type": "error"}], "threw": threw}


def data_takes_one_path(_given: Any, path: Path, theirs: Any) -> Any:
    """Data chunks pass the stream's hooks, whatever stage wrote them; what is written is data."""
    if path[-1] == "chunks":
        return [chunk for chunk in theirs if chunk["type"] != "note"]
    made = [entry for entry in theirs if entry[1] != "data-w"]
    before = made.index(["S", "text-start"])
    made[before:before] = [["T", "data-w", {"from": "stream"}], ["T", "data-t", {"from": "stream-transient"}]]
    after = made.index(["W.processOutputStep writer", True]) + 1
    made.insert(after, ["T", "data-w", {"from": "step"}])
    return [*made, ["T", "data-w", {"from": "result"}]]


def every_hook_may_write(_given: Any, _path: Path, _theirs: Any) -> Any:
    """One context with the same fields everywhere."""
    return True


def the_attempt_is_told_everywhere(_given: Any, _path: Path, theirs: Any) -> Any:
    """The retry count is that of the attempt, in the stream and at the end too."""
    made = []
    for name, told in theirs:
        if isinstance(told, dict):
            kept = {key: told[key] for key in ("text", "messageList", "requestContext") if key in told}
            made.append([name, {**kept, "retryCount": 0 if told.get("text") == "bad" else 1}])
        else:
            made.append([name, told])
    return made


def the_call_that_leaves_is_the_call_that_is_made(_given: Any, path: Path, theirs: Any) -> Any:
    """What stream hooks make of a tool call decides, streamed or not, and whether or not its input was streamed."""
    case, key = path[0], path[-1]
    if case == "edit":
        return _replaced(theirs, "orig", "edited")
    if key == "chunks":
        return [project(type) for type in theirs if type not in ("tool-call", "tool-result")]
    if key == "steps":
        return [{name: value for name, value in step.items() if name != "toolCalls"} for step in theirs]
    if key == "second_prompt":
        return theirs[:2]
    if key == "messages":
        return [theirs[0], *([{"role": "assistant", "parts": ["done"]}] if case == "drop" else [])]
    return []


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(below, old, new) for key, below in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return new if value == old else value


def what_is_kept_is_flushed(given: Any, path: Path, theirs: Any) -> Any:
    """A hook is asked for what it kept before a text ends, so nothing is lost."""
    deltas = given["model_turns"][0]["deltas"]
    text, last = "".join(deltas), deltas[-1]
    if path[-1] == "text":
        return text
    if path[-1] == "messages_after":
        return [theirs[0], {"role": "assistant", "parts": [text]}]
    end = theirs.index({"type": "text-end"})
    return [*theirs[:end], {"type": "text-delta", "text": last}, *theirs[end:]]


def state_is_kept_between_chunks(_given: Any, _path: Path, theirs: Any) -> Any:
    """A workflow keeps the state of its steps from chunk to chunk and from stage to stage."""
    *deltas, _ = theirs
    made = [{**entry, "n": number} for number, entry in enumerate(deltas, 1)]
    return [*made, {"result_sees_n": len(made)}]


def what_was_out_is_taken_back(_given: Any, path: Path, theirs: list[Any]) -> Any:
    """Text that a client was sent before a verdict is retracted, once, right before the tripwire."""
    assert path[-1] == "chunks"
    *before, verdict = theirs
    out = any(chunk["type"] == "text-delta" for chunk in before)
    told = {"type": "tripwire", "payload": {"retry": False, "metadata": {}, **verdict["payload"]}}
    return [*before, *([{"type": "retract"}] if out else []), told]


def a_stopped_stream_leaves_nothing(_given: Any, path: Path, theirs: Any) -> Any:
    """No later hook runs, a text that was not begun is not announced, and what was out is in no result."""
    if path[-1] == "log":
        return []
    if path[-1] == "chunks":
        *before, verdict = [chunk for chunk in theirs if chunk["type"] != "text-start"]
        told = {"retry": False, "metadata": {}, **verdict["payload"]}
        return [*before, {"type": "tripwire", "payload": told}]
    return theirs[:1] if "messages" in path[-1] else ""
