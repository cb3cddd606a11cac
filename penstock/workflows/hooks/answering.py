"""`answer`: the JSON of a hook in, the product's answer out. Server and cold process share it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.formats.wire import is_array, is_object
from penstock.workflows.hooks.claude_code import ClaudeCode
from penstock.workflows.hooks.client import is_stopped, stop_session, stopped_calls
from penstock.workflows.hooks.codex import Codex, holding_output
from penstock.workflows.hooks.decisions import PASSED, Decision, HookAnswer, HookInputError, read_call, refused
from penstock.workflows.hooks.logging_decisions import log_decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.formats.wire import Value
    from penstock.workflows.hooks.decisions import HookCall, Kind, Product
    from penstock.workflows.hooks.guarding import HookGuard, HookSession

PRODUCTS: Mapping[str, Product] = {product.name: product for product in (ClaudeCode(), Codex())}
"""The products by name."""

STOPPED = (
    "Penstock: something that must not reach the model has entered this conversation, where no hook can take it out. "
    "Start a new one (/clear)"
)
"""Why nothing passes in a session any more."""


async def answer(product: Product, payload: bytes, guard: HookGuard, *, holds_output: bool = False) -> HookAnswer:
    """Return the answer to a call of a hook.

    Args:
        product: the product that called.
        payload: the bytes that it wrote to stdin.
        guard: the policy.
        holds_output: whether commands of Codex write nothing before they end.

    Raises:
        HookInputError: it cannot be read.
        Exception: a step with ``on_error="raise"`` failed.
    """
    call = read_call(payload)
    kind = product.events.get(call.event)
    if kind == "start":
        guard.start(call.session, _folder(call), is_stopped=is_stopped(call.session))
    if kind == "end":
        guard.end(call.session)
    if kind in ("start", "end", "nothing"):
        return HookAnswer()
    if call.session and (is_stopped(call.session) or _is_copy(call, kind, guard)):
        decision = Decision("deny", STOPPED)
    else:
        decision = await _decided(product, call, kind, guard)
    log_decision(product.name, call, kind, decision, stops=decision.reason == STOPPED)
    if kind == "call" and holds_output and product.name == "codex":
        decision = holding_output(call, decision)
    if kind is None:
        return HookAnswer() if decision.action == "pass" else refused(decision.reason)
    return product.written(call, kind, decision)


def _is_copy(call: HookCall, kind: Kind | None, guard: HookGuard) -> bool:
    """Return whether a session that is new here continues a stopped one under another id; it is stopped, too.

    Its transcript then has the calls of that one. Before it has one, a copy is known by its start, which had the id of
    the stopped session.
    """
    session = guard.session(call.session)
    if session.is_known or kind != "prompt":
        return False
    session.is_known = True
    if guard.is_unstarted_copy(call.session, _folder(call)):
        stop_session(call.session, [])
        return True
    calls = stopped_calls()
    path = call.text("transcript_path")
    if not calls or not path:
        return False
    try:
        text = Path(path).read_text("utf-8", "replace")
    except OSError:
        return False
    found = [one for one in calls if one in text]
    if found:
        stop_session(call.session, found)
    return bool(found)


def _folder(call: HookCall) -> str:
    """Return the folder of the transcripts of a project."""
    return call.text("transcript_path").rpartition("/")[0]


async def _decided(product: Product, call: HookCall, kind: Kind | None, guard: HookGuard) -> Decision:
    session = guard.session(call.session)
    said, name = call.said, call.text("tool_name")
    if kind == "prompt":
        texts = [text for key, value in said.items() if key not in product.envelope for text in _texts(value)]
        return await guard.prompt(session, "\n\n".join(dict.fromkeys(texts)))
    if kind in ("call", "permission"):
        decision = await guard.call(session, name, said.get("tool_input"), call.call_id)
        return PASSED if kind == "permission" and decision.action == "ask" else decision
    if kind == "result":
        arguments: Value = said.get("tool_input")
        return await guard.result(session, name, said.get("tool_response"), call.call_id, arguments=arguments)
    if kind == "results" and "tool_calls" in said:
        return await _batch(call, session, guard)
    rest = {key: value for key, value in said.items() if key not in product.envelope}
    return await guard.result(session, name or call.event, rest, "", arguments=None, is_error=kind == "results")


async def _batch(call: HookCall, session: HookSession, guard: HookGuard) -> Decision:
    """Decide about results that the model is about to read.

    Those that the guards have seen are compared with the guarded versions. Others (of failed calls) are checked now.

    Raises:
        HookInputError: it is no list of calls.
    """
    calls: Value = call.said["tool_calls"]
    if not is_array(calls) or not all(map(is_object, calls)):
        raise HookInputError("tool_calls is no list of objects")
    for one in calls:
        id, response = str(one.get("tool_use_id") or ""), one.get("tool_response")
        if session.hidden.knows(id):
            if session.hidden.stand_in(id, response):
                return Decision("deny", STOPPED)
            continue
        arguments: Value = one.get("tool_input")
        name = str(one.get("tool_name") or call.event)
        decision = await guard.result(session, name, response, id, arguments=arguments, is_error=True)
        if decision.action != "pass":
            return Decision("deny", f"{decision.reason}. {STOPPED}", finding=decision.finding)
    return PASSED


def _texts(value: Value) -> list[str]:
    from penstock.engine.values.texts import leaves

    return [text for _, text in leaves(value)]
