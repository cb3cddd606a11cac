"""Where we differ from the reference on purpose: each rule makes a new exact expectation.

A rule sees what was given, the key's path and what the reference did there; nothing of ours. Its reason stands in
docs/differences.md, under its name.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from tests.conformance.runtime.projection import project

Path = tuple[str, ...]


def everything_stops_at_a_verdict(given: Any, path: Path, theirs: Any) -> Any:
    """Nothing of what was judged is left, nothing runs afterwards, and the reason to finish is always *other*."""
    key = path[-1].removesuffix("_promise").removesuffix("_after")
    if key == "text":
        return ""
    if key == "finishReason":
        return "other"
    if key == "log":
        return _log_of_what_runs(theirs)
    if key == "messages":
        kept = () if _stage(given) == "processInput" else ("user",)
        return [message for message in theirs if message["role"] in kept]
    if key == "steps":
        return _blocked_steps(theirs) if _stage(given) == "processOutputStep" else []
    if key == "called":
        return theirs[:1]
    if key == "chunks":
        return _stopped_chunks(given, theirs)
    return 1 if path[-1] == "model_calls_after_settling" else []


def one_outcome_for_every_stage(_given: Any, path: Path, _theirs: Any) -> Any:
    """Exactly one tripwire chunk, which names its run; no text; and the reason to finish is *other*."""
    told = {"finishReason": "other", "text": "", "status": "blocked"}
    return told.get(path[-1].removeprefix("generate_").removeprefix("stream_"), True)


def every_attempt_is_a_step(given: Any, path: Path, theirs: Any) -> Any:
    """An attempt that was blocked is a step too, at whatever stage: without text, with its verdict."""
    assert theirs == []
    tripwire = _verdict(given, path[0])["payload"]
    turn = given["model_turns"][0]
    called = _stage(given) == "processToolResult" or ("deltas" not in turn and "text" not in turn)
    calls = {"toolCalls": [call["name"] for call in turn["tool_calls"]]} if called else {}
    return [{"text": "", "finishReason": "other", **calls, "tripwire": tripwire}]


def what_was_spent_is_told(_given: Any, _path: Path, theirs: Any) -> Any:
    """The tokens of an attempt that was blocked count, once the model has told them."""
    assert theirs == {}
    return {"inputTokens": 10, "outputTokens": 5}


def one_text_for_both(_given: Any, path: Path, theirs: Any) -> Any:
    """The text of a request is that of all its accepted steps, streamed or not."""
    assert (path[-1], theirs) == ("text_promise", "done")
    return "let me seedone"


def _stage(given: Any) -> str:
    stage: str = given.get("abort", {}).get("stage", "processOutputStep")
    return stage


def _log_of_what_runs(theirs: list[Any]) -> list[Any]:
    """Return the log up to the verdict, which is A's last entry before which it was not yet given."""
    last = next(index for index, entry in enumerate(theirs) if entry.startswith("A."))
    return [project(entry) for entry in theirs[: last + 1]]


def _verdict(given: Any, case: str = "") -> Any:
    """Return the tripwire chunk that follows from what was given."""
    if "abort_on" in given:
        given = {"outputProcessors": [f'abort("no {case}")']}
    if "abort" in given:
        told = {"reason": given["abort"]["reason"], **given["abort"]["options"]}
    elif "reason" in given:
        told = {"reason": given["reason"], "retry": True}
    elif "outputProcessors" in given:
        told = {"reason": re.findall(r'abort\("(.*?)"\)', given["outputProcessors"][0])[0]}
    else:
        told = {"reason": "no tools"}
    return {"type": "tripwire", "payload": {"retry": False, "metadata": {}, **told, "processorId": "A"}}


def _stopped_chunks(given: Any, theirs: list[Any]) -> list[Any]:
    """Return what a client is sent: nothing that waited for the verdict; what was out is taken back."""
    if _stage(given) in ("processLLMResponse", "processOutputStep"):
        return [theirs[0], _verdict(given)]
    out = [chunk for chunk in theirs if chunk["type"] != "tripwire"]
    texts = any(chunk["type"] == "text-delta" for chunk in out)
    return [*out, *([{"type": "retract"}] if texts else []), _verdict(given)]


def a_rejected_attempt_does_not_leave(given: Any, _path: Path, theirs: list[Any]) -> Any:
    """A guard after the stream judges what it holds: of an attempt that it rejects only the rejection leaves."""
    made, attempt = [], []
    for chunk in theirs:
        reason = chunk.get("reason") if chunk["type"] == "step-finish" else None
        if reason == "retry":
            made.append(chunk)
            attempt = []
        elif reason == "tripwire":
            return [*made, _verdict(given)]
        elif chunk["type"] in ("start", "finish") or reason:
            made += [*attempt, chunk]
            attempt = []
        else:
            attempt.append(chunk)
    return made


def what_leaves_is_what_was_judged(given: Any, path: Path, theirs: list[str]) -> Any:
    """What a guard of the result changes, it changes before it leaves."""
    del given
    text = "" if path[0] == "drop_text" else "".join(theirs).upper()
    return [text] if text else []


def a_check_that_broke_has_not_passed(_given: Any, path: Path, theirs: Any) -> Any:
    """A stream hook that raises ends the stream before what it did not judge; no edit of another's is undone."""
    if path[-1] == "log":
        judged = next(index for index, entry in enumerate(theirs) if entry.endswith("text-start"))
        return [project(entry) for entry in theirs[: judged + 1]]
    stage = "process_output_stream"
    threw = {"error": "StepFailedError", "processor": "A", "stage": stage, "cause": "ValueError: boom"}
    chunks = [{"type": type} for type in ("start", "step-start", "error")]
    if "error" in theirs:
        return {"chunks": chunks, "error": threw}
    return {"chunks": chunks, "threw": threw} if path[1] == "stream" else {"threw": threw}


def an_error_is_the_end(_given: Any, path: Path, theirs: Any) -> Any:
    """What waited for the check that broke does not leave, and there is no result."""
    if path[-1] == "chunks":
        return [theirs[0], "error"]
    stage = project(path[0].split(".")[0])
    kind = "TypeError" if path[0].endswith(".both") else "WrongReturnError"  # there is one field for messages
    threw = {"error": "StepFailedError", "processor": "A", "stage": stage, "cause": kind}
    return threw if path[-1] == "threw" else {"rejected": threw}


def _blocked_steps(steps: list[Any]) -> list[Any]:
    *others, last = copy.deepcopy(steps)
    tripwire = {"retry": False, "metadata": {}, **last["tripwire"]}
    return [*map(_whole, others), {**last, "text": "", "finishReason": "other", "tripwire": tripwire}]


def _whole(step: Any) -> Any:
    """Return a step with the fields of its tripwire that the reference leaves out."""
    if "tripwire" not in step:
        return step
    return {**step, "tripwire": {"retry": False, "metadata": {}, **step["tripwire"]}}


def an_empty_list_is_refused(_given: Any, path: Path, theirs: Any) -> Any:
    """None is how to say *unchanged*; emptying is said by its name."""
    stage = "process_output_result" if path[-1] in ("generate", "stream") else "process_input"
    refused = {"error": "StepFailedError", "processor": "A", "stage": stage, "cause": "WrongReturnError"}
    if isinstance(theirs, dict) and "seen" in theirs:
        return {"seen": theirs["seen"], "threw": refused}
    return {"prompt": None, "threw": refused}


def what_is_no_message_is_refused(given: Any, path: Path, theirs: Any) -> Any:
    """A wrong return value, or a change that is not returned, is an error that names the processor and the stage."""
    del theirs
    at_step = "processInputStep" in path
    stage = "process_input_step" if at_step else "process_input"
    kind = (
        "FrozenInstanceError" if "mutate" in str(given.get("cases", {}).get(path[0], path[0])) else "WrongReturnError"
    )
    if path[0].startswith("in place"):
        kind = "FrozenInstanceError"
    return {"prompt": None, "threw": {"error": "StepFailedError", "processor": "A", "stage": stage, "cause": kind}}


def the_original_error_is_the_cause(_given: Any, path: Path, theirs: Any) -> Any:
    """An ordinary error comes out once, names the culprit and the stage, and carries the original."""
    stage = project(path[0])
    threw = {"threw": {"error": "StepFailedError", "processor": "A", "stage": stage, "cause": "ValueError: boom"}}
    if path[1] == "generate":
        return threw
    left = [chunk for chunk in theirs.get("chunks", []) if chunk["type"] in ("start", "error")]
    if path[0] == "processToolResult":  # the answer had been judged
        left = theirs["chunks"]
    if path[0] == "processOutputResult":
        left = [*left, {"type": "error"}]
    return {**threw, "chunks": [{"type": "error"} if chunk["type"] == "error" else chunk for chunk in left]}


def a_join_needs_no_map(given: Any, path: Path, theirs: Any) -> Any:
    """Where parallel steps meet, or no arm was taken, the payload goes on by itself."""
    del theirs
    if path[-1] == "threw":
        return None
    if path[-1] == "tripwire":
        return None
    text = given.get("input", "Hi") + {"only A": " [A]", "both": " [A] [B]"}.get(path[0], "")
    prompt = _prompt(text)
    return (
        prompt if path[-1] == "prompt" else {"prompt": prompt, "text": "ok", "finishReason": "stop", "tripwire": None}
    )


def parallel_edits_all_hold(given: Any, path: Path, theirs: Any) -> Any:
    """The edits of parallel steps are merged in declared order, whatever finished first; deletions win."""
    del theirs
    suffixes = re.findall(r'\+ ?"( \[\w\])"', given["workflow"])
    if "edits" in given["workflow"]:  # A and B edit one message each
        return _prompt("first [A]", "second [B]")
    if "returns only" in given["workflow"]:  # A deletes, B adds
        return _prompt("first", "added")
    if path[0] == "C returns array":
        suffixes.append(" [C]")
    return _prompt(given.get("input", "Hi") + "".join(suffixes))


def every_arm_that_holds_counts(_given: Any, _path: Path, theirs: Any) -> Any:
    """With match="all" the edits of all arms taken are merged."""
    return {**theirs, "prompt": _prompt("Hi [A] [B]")}


def a_condition_that_raises_is_a_failure(_given: Any, path: Path, theirs: Any) -> Any:
    """A guard's arm is not skipped because its condition broke."""
    del path, theirs
    return {"prompt": None, "threw": {"error": "StepFailedError", "cause": "ValueError: cond bug"}}


def the_first_tripwire_wins(_given: Any, path: Path, theirs: Any) -> Any:
    """A verdict cancels its siblings, beats their errors, and leaves nothing of their edits behind."""
    case, key = path
    if key == "log_at_return":
        return [entry for entry in theirs if not entry.endswith("end")]
    if key == "waited_for_slow_sibling":
        return False
    if key == "threw":
        return None
    if key == "messages":
        return []
    reason = "B early" if "early" in case else "B abort"
    return {"reason": reason, "retry": False, "metadata": {}, "processorId": "B"}


def a_list_returned_at_the_end_counts(_given: Any, path: Path, theirs: Any) -> Any:
    """What the last step returns is what the model gets."""
    del path
    changed = copy.deepcopy(theirs)
    changed[-1]["text"] = "CHANGED IN MAP"
    return changed


def overrides_of_all_branches_merge(_given: Any, _path: Path, theirs: Any) -> Any:
    """Fields that only one branch set are all kept."""
    assert theirs == ["lookup"]  # B chose that no tool be called
    return []


def every_hook_runs_in_a_workflow(_given: Any, path: Path, theirs: Any) -> Any:
    """A workflow has every stage, and tells whoever listens of a verdict."""
    if path[-1] == "hooks_called":
        return [*theirs, "processLLMRequest", "processLLMResponse"]
    if path[-1] == "prompt":  # the call is made again
        return [theirs, theirs]
    return None if path[-1] == "threw" else True


def every_processor_sees_the_same_scope(_given: Any, _path: Path, theirs: Any) -> Any:
    """`ctx.messages` is derived anew for each processor: current, and always what the stage shows."""
    first, (name, _, label, whole) = copy.deepcopy(theirs)
    return [first, [name, [entry for entry in whole if "context" not in entry], label, whole]]


def a_tool_result_belongs_to_its_step(_given: Any, _path: Path, theirs: Any) -> Any:
    """The step number is that of the step that called the tool."""
    name, hook, told = copy.deepcopy(theirs)
    told["stepNumber"] -= 1
    del told["steps_len"]
    return [name, hook, told]


def order_given_is_order_kept(given: Any, path: Path, theirs: Any) -> Any:
    """A returned list says the order; times decide nothing."""
    base = [f"user:{text}" for text in given["input"]]
    case = given["cases"][path[0]]
    new = [entry for entry in theirs if entry not in base]
    if "reverse" in case:
        return base[::-1]
    return [*new, *base] if case.startswith("[new") else [*base, *new]


def one_id_is_one_message(_given: Any, path: Path, theirs: Any) -> Any:
    """A returned list that holds two messages with one id, or what is no message, is refused."""
    del theirs
    stage = {"processInput": "process_input", "processInputStep": "process_input_step"}[path[1]]
    return {"error": "StepFailedError", "processor": "A", "stage": stage, "cause": "WrongReturnError"}


def added_messages_stand_by_themselves(_given: Any, _path: Path, theirs: Any) -> Any:
    """A message added at the end is kept as it was given."""
    made = copy.deepcopy(theirs)
    made[-1]["parts"] = [part for part in made[-1]["parts"] if [part] != made[-2]["parts"]]
    return made


def system_messages_of_a_call_have_no_owner(_given: Any, _path: Path, theirs: Any) -> Any:
    """They stand behind the instructions; who replaces the messages without an owner is shown both."""
    instructions, replacing, of_the_call, *tagged = theirs
    return [instructions, of_the_call, replacing, *tagged]


def memory_is_no_input(_given: Any, _path: Path, theirs: Any) -> Any:
    """At the input a processor is shown what the caller said; what is remembered stands in the list."""
    return {**theirs, "messages": theirs["messages"][-1:]}


def the_working_memory_is_shown_as_data(given: Any, path: Path, theirs: Any) -> Any:
    """What a memory knows is a message of its own in the list, before what was said; the rest as above."""
    shown = memory_is_no_input(given, path, theirs)
    return {**shown, "all": ["user:(working memory)", *shown["all"]]}


def an_accepted_question_is_kept(_given: Any, path: Path, _theirs: Any) -> Any:
    """What passed its guards is kept before the model is called; a verdict about the answer does not take it back."""
    assert path[0] in ("processOutputStream", "processOutputStep", "processOutputResult"), path
    return [{"role": "user", "parts": ["Hi"]}]


def a_run_writes_nothing(_given: Any, _path: Path, theirs: Any) -> Any:
    """Running processors stores nothing, and what a memory saves is what the guards left."""
    assert theirs
    return []


def text_is_what_the_model_said(_given: Any, _path: Path, _theirs: Any) -> Any:
    """What is added to the conversation at the end is no answer of the model."""
    return "answer"


def feedback_is_for_one_retry(_given: Any, _path: Path, theirs: Any) -> Any:
    """Only the attempt that follows a rejection is told why."""
    feedback = [call[-1] for call in theirs[1:3]]
    reasons = [text.split(": ", 1)[1].split(". Please", 1)[0] for text in feedback]
    return [["Sys"], *[["Sys", f"<feedback: {reason}>"] for reason in reasons], ["Sys"]]


def retries_do_not_use_up_steps(given: Any, path: Path, theirs: Any) -> Any:
    """The step budget counts accepted steps, so the good answer is reached."""
    answer = given["model_turns"][-1]["text"]
    attempts = len(given["model_turns"])
    key = path[-1].removesuffix("_promise").removesuffix("_after")
    if key == "model_calls":
        return attempts
    if key == "usage":
        return {name: count // 2 * attempts for name, count in project(theirs, key).items()}
    if key == "chunks":
        rejected, *_ = [chunk for chunk in theirs if chunk["type"] == "step-finish"]
        said = [{**chunk, "text": answer} if "text" in chunk else chunk for chunk in theirs[1:5]]
        ends = [{"type": type, "reason": "stop", "isContinued": False} for type in ("step-finish", "finish")]
        return [theirs[0], *[rejected] * (attempts - 1), *said, *ends]
    if key == "prompts":
        return [["Sys", "Hi"], *[["Sys", f"<feedback: {given['reason']}>", "Hi"]] * (attempts - 1)]
    if key == "messages":
        return [*theirs, {"role": "assistant", "parts": [answer]}]
    if key == "steps":
        return [*map(_whole, theirs), {"text": answer, "finishReason": "stop"}]
    return answer if key == "text" else "stop"


def _prompt(*texts: str) -> list[Any]:
    return [{"role": "system", "text": "Sys"}, *[{"role": "user", "text": text} for text in texts]]
