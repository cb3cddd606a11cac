"""The JSON Schema of stored runs, that is of `StoredRun.body`, while they wait, go on or have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from penstock.workflows.review.waiting import VERSION

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

    Json: TypeAlias = dict[str, Value]

_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_FLAG: Json = {"type": "boolean"}
_HASH: Json = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_ANY: Json = {}


def run_schema() -> Json:
    """Return the JSON Schema of the stored bodies of runs, draft 2020-12."""
    made = _object(_FIELDS, ("version",))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stored run of Penstock",
        "description": "What a store has of a request that waits for people, goes on, or has ended, as its guards left "
        "it: hidden texts are placeholders or tokens. See docs/review.md.",
        **made,
        "$defs": {
            "decision": _decision(),
            "waiting": _waiting({}),
            "decided": _waiting({"decision": _said(_ref("decision"), "The decision.")}),
            "tripwire": _tripwire(),
            "usage": _usage(),
            "spent": _spent(),
            "entry": _entry(),
            "verdict": _verdict(),
            "judged": _judged(),
            "answer": _answer(),
            "record": _record(),
        },
    }


def _said(schema: Json, description: str) -> Json:
    return {**schema, "description": description}


def _object(fields: dict[str, Json], required: tuple[str, ...] | None = None) -> Json:
    """Return an object with these fields and no others; ``required``: None for all of them."""
    needed = tuple(fields) if required is None else required
    return {"type": "object", "additionalProperties": False, "properties": fields, "required": [*needed]}


def _list(name: str, description: str) -> Json:
    return {"type": "array", "items": _ref(name), "description": description}


def _texts(description: str) -> Json:
    return {"type": "array", "items": _TEXT, "description": description}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _decision() -> Json:
    fields = {
        "verdict": {"enum": ["approve", "reject", "answer"], "description": "What was decided."},
        "value": _said(_ANY, "The result of the call, or the answer to the question; null for other verdicts."),
        "arguments": _said(_ANY, "Other arguments for an approved call."),
        "reason": _said(_TEXT, "Why it was rejected, for the model."),
        "by": _said(_TEXT, "Who decided."),
        "at": _said(_TEXT, "When, in UTC."),
        "digest": _said(_HASH, "The digest of the call that was shown. The decision counts for no other."),
    }
    return {**_object(fields, ("verdict",)), "description": "The decision of a person or a program."}


def _waiting(more: dict[str, Json]) -> Json:
    fields = {
        "call_id": _said(_TEXT, "The id of the call or the question."),
        "tool": _said(_TEXT, "The name of the tool, or of the processor that asks."),
        "arguments": _said(_ANY, "The arguments as the guards left them; of a question, the values to show."),
        "kind": {"enum": ["approval", "result", "question", "run"], "description": "What is waited for."},
        "digest": _said(_TEXT, "A hash of the tool's definition, the arguments and the policy."),
        "reason": _said(_TEXT, "Why a step asks; only of a question."),
        "schema": _said(_or_null({"type": "object"}), "The JSON Schema of the answer; only of a question."),
        "inner": _said(_TEXT, "The id of the run of an agent within the agent that is waited for; only of a run."),
        **more,
    }
    needed = ("call_id", "tool", "arguments", "kind", "digest", *more)
    return {**_object(fields, needed), "description": "A call or a question that is waited for."}


def _tripwire() -> Json:
    fields = {
        "reason": _said(_TEXT, "What the client was told; empty for a shadow step."),
        "processor_id": _said(_TEXT, "The processor that stopped the run or the attempt."),
        "stage": _said(_TEXT, "Its stage."),
        "retry": _said(_FLAG, "Whether it asked for another attempt of the model."),
        "metadata": {"type": "object", "description": "Details as the client got them, such as category, severity."},
    }
    return {**_object(fields), "description": "A verdict that stops."}


def _usage() -> Json:
    counts = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "requests")
    fields = {name: _or_null(_COUNT) for name in counts}
    made = {"type": "object", "properties": fields, "required": ["input_tokens", "output_tokens"]}
    return {**made, "description": "The tokens of requests to a model; null if not known."}


def _spent() -> Json:
    fields = {
        "model": _said(_TEXT, "The name of the model."),
        "usage": _or_null(_ref("usage")),
        "by": _said(_TEXT, "The path of the step that asked; empty for the agent."),
        "attempts": _said(_COUNT, "The number of requests, failed ones included."),
    }
    return {**_object(fields), "description": "The cost of requests to a model, of a judge or of the agent."}


def _entry() -> Json:
    fields = {
        "message": {"type": "object", "description": "A message in Penstock's own form, as the guards left it."},
        "source": _said(_TEXT, "Where it came from: input, memory, response …"),
        "tag": _said(_or_null(_TEXT), "The owner of a system message."),
    }
    return {**_object(fields), "description": "A message of the conversation."}


def _verdict() -> Json:
    fields = {
        "path": _said(_TEXT, "The path of the step in its workflow."),
        "processor": _said(_TEXT, "The id of the processor."),
        "stage": _said(_TEXT, "The stage."),
        "status": {"enum": ["passed", "edited", "tripped", "failed", "skipped"], "description": "How it ended."},
        "shadow": _said(_FLAG, "Whether it ran in shadow and changed nothing."),
        "edits": _said(_COUNT, "How many edits it made."),
        "flagged": _texts("The names of findings that it let pass."),
        "error": _said(_or_null(_TEXT), "The name of the error's type, if it failed."),
        "tripwire": _said(_or_null(_ref("tripwire")), "The verdict, if it stopped the run or an attempt."),
        "judges": {
            "type": "object",
            "description": "By model: verdicts, those that were known or cached, calls, tokens.",
        },
    }
    return {**_object(fields), "description": "A step that did more than pass."}


def _judged() -> Json:
    fields = {
        "id": _said(_HASH, "A hash of the run, the guard with its options, the model, the question and the text."),
        "path": _said(_TEXT, "The path of the step that asked first."),
        "stage": _said(_TEXT, "Its stage."),
        "step": _said(_COUNT, "The number of the model step."),
        "model": _said(_TEXT, "The name of the judge's model."),
        "verdict": _said(
            _ANY,
            "The verdict. What it quotes of the text is a reference: $text, $number or $object, with literal pieces "
            "and [number of the text, start, length, [offset, other character] …].",
        ),
        "dropped": _texts("Entries of the verdict that were invalid and left out."),
        "usage": _said(_or_null(_ref("usage")), "The tokens that it took, if they are known."),
    }
    return {
        **_object(fields),
        "description": "A verdict of a judge, which is not asked again about the same in this run.",
    }


def _answer() -> Json:
    fields = {
        "by": {
            "enum": ["model", "tool"],
            "description": "Whose answer it is. Judges and people have lists of their own.",
        },
        "step": _said(_COUNT, "The number of the model step, from 0."),
        "id": _said(_TEXT, "The id of the message or the call; empty if a verdict took the answer away."),
        "name": _said(_TEXT, "The name of the model or the tool."),
        "state": _said(_or_null(_TEXT), "The finish reason of an answer; result or error of a tool."),
        "released": _said(_FLAG, "Whether it was released: no verdict stopped it, and none of the last stage is due."),
    }
    return {**_object(fields), "description": "An answer of a model or a tool, without its text."}


def _record() -> Json:
    fields = {
        "verdicts": _list("verdict", "The verdicts of steps, in order, over all processes."),
        "judged": _list("judged", "The verdicts of judges."),
        "answers": _list("answer", "The answers of models and tools, in order."),
    }
    return {**_object(fields), "description": "The verdicts and answers of a run. Kept when it has ended."}


_FIELDS: dict[str, Json] = {
    "version": {"const": VERSION, "description": "The version of the format."},
    "policy": _said(_TEXT, "The fingerprint of the agent's processors and tools, with their options."),
    "record": _said(_ref("record"), "Verdicts, judges and answers."),
    "spent": _list("spent", "The cost of each model, over all processes."),
    "waiting": _list("waiting", "The calls and questions that are waited for, as people see them."),
    "decisions": {
        "type": "object",
        "additionalProperties": _ref("decision"),
        "description": "The decisions about them, by their ids.",
    },
    "earlier": _list("decided", "Calls and questions that were decided about before."),
    "expired": _texts("The ids of those that nobody decided about in time."),
    "expires_at": _said(_or_null(_TEXT), "Until when decisions are possible; null: for ever."),
    "has_rule": _said(_FLAG, "Whether its application has a rule about who may decide."),
    "notes": _texts("Keys of notes that say which run asks about a call."),
    "asked_by": _said(_TEXT, "Only in such a note: the id of the run."),
    "taken_by": _said(_TEXT, "The id of the run that used the approvals, if they came with messages."),
    "released": {"type": "object", "description": "Only of the run of an agent within an agent: its result."},
    "claim": _said(_TEXT, "Drawn when a process takes the run over."),
    "question": _said(_TEXT, "The last message of the user, as people see it."),
    "text": _said(_TEXT, "The answer so far, as people see it."),
    "reply": {"type": "object", "description": "Only of a gateway: the answer with the calls, as clients get it."},
    "phase": {
        "enum": ["input", "prompt", "request", "answer", "calls", "tools", "step", "end", "result"],
        "description": "What comes next in the request.",
    },
    "run": {
        "type": "object",
        "description": "The conversation, facts, states of processors, and the retries that are left.",
        "properties": {
            "messages": _list("entry", "The conversation."),
            "facts": {"type": "object", "description": "Facts that steps have put, by key."},
            "states": {"type": "object", "description": "States of processors, by path."},
        },
        "required": ["messages", "facts", "states"],
    },
    "progress": {"type": "object", "description": "The steps so far: number, finish reason, usage, id of the message."},
    "begun": _texts("The ids of calls whose tools have begun."),
    "planned": {"type": "object", "description": "What was decided about calls whose tools run, by their ids."},
    "held": _texts("The ids of answers that wait for the last stage."),
    "read_late": {"type": "object", "description": "What guards of the last stage have read before it was stored."},
    "asked": {"type": "array", "items": {"type": "object"}, "description": "The stages that wait for people."},
    "answer": {"type": "object", "description": "An answer that is not accepted yet; empty if there is none."},
}
