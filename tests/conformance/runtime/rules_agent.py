"""Where an agent differs from the reference's on purpose; rules as in `rules`, which they continue."""

from __future__ import annotations

import copy
from typing import Any

from tests.conformance.runtime.projection import project
from tests.conformance.runtime.rules import Path

_REFUSED = "OptionError"


def an_error_is_no_message(_given: Any, _path: Path, theirs: Any) -> Any:
    """Of a call that failed nothing is in the history, the error neither."""
    return [message for message in theirs if message["parts"] != [{"type": "error"}]]


def a_failed_call_is_the_end(_given: Any, _path: Path, theirs: Any) -> Any:
    """There is no answer to be judged: no hook behind the model is called for it."""
    return theirs[:1]


def a_misplaced_processor_is_refused(_given: Any, path: Path, _theirs: Any) -> Any:
    """A processor none of whose hooks can run in its array is an error when the agent is made."""
    return {"model_calls": 0, "prompts": [], "result": {"threw": _REFUSED}}[path[-1]]


def a_verdict_on_an_error_is_one(given: Any, path: Path, theirs: Any) -> Any:
    """A verdict about a failed call ends the request as any other does."""
    del given
    told = {"reason": "giving up", "retry": False, "metadata": {"k": 1}, "processorId": "E"}
    ended: dict[str, Any] = {"text": "", "finishReason": "other", "tripwire": told, "threw": None}
    ended |= {"status": "blocked", "steps": [{"text": "", "finishReason": "other", "tripwire": told}]}
    if path[-1] == "chunks":
        return [*theirs, {"type": "tripwire", "payload": told}]
    if path[-1] == "result":
        return {key: ended[key] for key in ("text", "finishReason", "tripwire", "threw")}
    return ended[path[-1].removesuffix("_promise").removesuffix("_property")]


def budgets_of_their_own(given: Any, path: Path, theirs: Any) -> Any:
    """Calls that failed and answers that were rejected are counted apart, so the good answer is reached."""
    answer = given["model_turns"][-1]["text"]
    key = path[-1].removesuffix("_promise").removesuffix("_after")
    if key == "log":
        made = [[name, {**told, "retryCount": n}] for (name, told), n in zip(theirs, (0, 0, 1, 1), strict=True)]
        made[-1][1]["text"] = answer
        return made
    if key == "prompts":
        return [*project(theirs), project(theirs)[-1]]
    if key == "chunks":
        return _mended(theirs, answer)
    if key == "steps":
        failed, rejected, _ = copy.deepcopy(theirs)
        rejected["tripwire"] |= {"metadata": {}}
        return [failed, rejected, failed, {"text": answer, "finishReason": "stop"}]
    if key == "messages":
        return [theirs[0], {"role": "assistant", "parts": [answer]}]
    told = {"model_calls": 4, "result": {"text": answer, "threw": None}, "text": answer, "finishReason": "stop"}
    return {**told, "status": "success", "error_property": None}[key]


def _mended(theirs: Any, answer: str) -> Any:
    """Return the chunks of attempts that were held for a guard: of those that failed or were rejected, the end."""
    failed, rejected = [chunk for chunk in theirs if chunk.get("reason") == "retry"]
    said = [{**chunk, "text": answer} if "text" in chunk else chunk for chunk in theirs[4:7]]
    ends = [{"type": type, "reason": "stop", "isContinued": False} for type in ("step-finish", "finish")]
    return [theirs[0], failed, rejected, failed, theirs[1], *said, *ends]


def a_function_is_evaluated_once(_given: Any, _path: Path, theirs: Any) -> Any:
    """What an array's function makes serves the whole request."""
    once = [entry for place, entry in enumerate(theirs) if entry not in theirs[:place]]
    assert len(once) == 4, once
    return once


def what_is_no_processor_is_refused(_given: Any, _path: Path, _theirs: Any) -> Any:
    """What cannot run where it stands is an error when the agent is made."""
    return {"hooks_called": [], "text": None, "threw": _REFUSED}


def a_workflow_is_always_whole(_given: Any, path: Path, _theirs: Any) -> Any:
    """A workflow is a value and complete at any time; a bare step is no entry, whatever stands beside it."""
    works = "workflow" in path[0]
    told = {"user_text": "by A", "text": "ok", "threw": None}
    return told[path[-1]] if works else {"threw": _REFUSED}.get(path[-1])


def the_end_is_told_once(_given: Any, _path: Path, _theirs: Any) -> Any:
    """Whoever asked to be told of the end is told of every end, and never of a text that was blocked."""
    return [["onFinish", "other", ""]]


def one_context_for_all(_given: Any, _path: Path, _theirs: Any) -> Any:
    """Every hook may write."""
    return True


def there_is_one_executor(_given: Any, path: Path, _theirs: Any) -> Any:
    """A hook that crashes ends the stream; each sees what its predecessor left; alone as in an agent."""
    if path[-1] == "log":
        return [["B streamParts", ["A"]], ["B streamParts", ["A", "SECRET#"]]]
    stage = "process_output_stream"
    threw = {"error": "StepFailedError", "processor": "B", "stage": stage, "cause": "ValueError"}
    return [{"type": "text-delta", "text": "A"}, {"threw": threw}]
