"""`HookGuard`: a policy that checks the prompts, calls and results of the sessions of a coding agent."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import equal, freeze, is_mapping, thaw
from penstock.engine.values.messages import Message
from penstock.engine.values.texts import leaves
from penstock.processors.guards.restore import VAULT
from penstock.processors.tools.tool_policy import UNTRUSTED
from penstock.workflows.hooks.bodies import Bodies
from penstock.workflows.hooks.decisions import PASSED, Decision
from penstock.workflows.hooks.hidden import HiddenTexts
from penstock.workflows.hooks.known_values import KnownValues
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.answers import as_text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.values.facts import AnyKey, Facts
    from penstock.engine.values.frozen import Value
    from penstock.engine.workflow import Workflow
    from penstock.processors.guards.restore import Vault
    from penstock.workflows.hooks.bodies import Unread
    from penstock.workflows.hosting import HostRequest

SUPPORT = HostSupport(
    "hook",
    stages=frozenset({"process_input", "process_tool_call", "process_tool_result"}),
    instead="an adapter or a gateway",
    logs_partial=False,
)

_SESSIONS = 500
_LASTING: tuple[AnyKey, ...] = (VAULT, UNTRUSTED)
"""The facts that are the session's, and not those of one call: the hidden values, and the untrusted tools."""


class HookSession:
    """A session of the product, from call to call.

    Attributes:
        states: the states of the processors.
        facts: the facts that last.
        hidden: the texts that results no longer had after the guards.
        known: the values that were hidden in results.
        is_known: whether a prompt of it was checked before.
        turn: held by the call that is being checked: products check several tools at once, and facts build up.
    """

    def __init__(self) -> None:
        self.states: dict[str, Value] = {}
        self.facts: Facts = {}
        self.hidden = HiddenTexts()
        self.known = KnownValues()
        self.is_known = False
        self.turn = anyio.Lock()


class HookGuard:
    """Checks prompts, calls and results with a policy.

    Args:
        workflow: returns the policy as it is now.
        product: the name of the product, for reasons.
        unread: which bodies pass that no guard can read.

    Raises:
        UsageError: no processor of the policy has a stage that a hook can run.
    """

    def __init__(self, workflow: Callable[[], Workflow], product: str, unread: Unread = "pictures") -> None:
        self._workflow = workflow
        self._product = product
        self._unread: Unread = unread
        self._sessions: OrderedDict[str, HookSession] = OrderedDict()
        self._started: OrderedDict[str, None] = OrderedDict()
        self._taken_up: set[str] = set()  # the folders in which a stopped session was taken up again
        self._used = workflow()
        self._host = _host(self._used)

    def session(self, id: str) -> HookSession:
        """Return a session; one without an id is made anew."""
        made = self._sessions.pop(id, None) or HookSession()
        if id:
            self._sessions[id] = made
            while len(self._sessions) > _SESSIONS:
                self._sessions.popitem(last=False)
        return made

    def start(self, id: str, folder: str, *, is_stopped: bool) -> None:
        """Note that a session was started, or taken up again.

        Args:
            id: its id.
            folder: the folder of its transcript.
            is_stopped: whether nothing of it may reach the model.
        """
        self._started[id] = None
        while len(self._started) > _SESSIONS:
            self._started.popitem(last=False)
        if is_stopped:
            self._taken_up.add(folder)

    def is_unstarted_copy(self, id: str, folder: str) -> bool:
        """Return whether a session had no start of its own, and a stopped one was taken up in its folder."""
        return id not in self._started and folder in self._taken_up

    def end(self, id: str) -> None:
        """Forget a session."""
        self._sessions.pop(id, None)

    async def prompt(self, session: HookSession, text: str) -> Decision:
        """Decide about a prompt. No product lets a hook change one, so one that guards would change is denied."""
        if not text:
            return PASSED
        if _is_too_long(text):
            return Decision("deny", _TOO_LONG)
        async with self._request(session) as request:
            outcome = await request.run.process_input([Message.user(text)])
            if outcome.blocked:
                return _denied(outcome)
            left = [message.text for message in outcome.messages if message.role == "user"]
            if left != [text] or session.known.hidden(text, _tokens(session)) != text:
                return Decision("deny", self._cannot_change("prompt", outcome), finding=_finding(outcome))
        return PASSED

    async def call(self, session: HookSession, name: str, arguments: Value, call_id: str) -> Decision:
        """Decide about a call of a tool before it runs."""
        if _is_too_long(arguments):
            return Decision("deny", _TOO_LONG)
        async with self._request(session) as request:
            outcome = await request.run.process_tool_call(name, freeze(arguments), call_id=call_id)
            if outcome.blocked:
                return _denied(outcome)
            same = equal(outcome.arguments, freeze(arguments))
            value = None if same else thaw(outcome.arguments)
            if outcome.answered:
                reason = f"Penstock: {as_text(outcome.answer).removeprefix(_NOT_RUN).rstrip('.')}"
                return Decision("ask" if outcome.asks else "deny", reason, value, _finding(outcome))
            if not same:
                return Decision("change", self._cannot_change("call", outcome), value, _finding(outcome))
        return PASSED

    async def result(
        self, session: HookSession, name: str, result: Value, call_id: str, *, arguments: Value, is_error: bool = False
    ) -> Decision:
        """Decide about the result of a tool, or about the text of its error."""
        bodies = Bodies(self._unread)
        given = bodies.without(result)
        refusal = _UNREAD[max(bodies.refused)] if bodies.refused else _TOO_LONG if _is_too_long(given) else ""
        if refusal:
            session.hidden.note(call_id, result, None, arguments)
            return Decision("deny", refusal)
        async with self._request(session) as request:
            shown = session.known.hidden(given, _tokens(session))
            outcome = await request.run.process_tool_result(
                name, freeze(shown), arguments=freeze(arguments), call_id=call_id, is_error=is_error
            )
            if outcome.blocked:
                session.hidden.note(call_id, result, None, arguments)
                return _denied(outcome)
            left = thaw(outcome.result)
            session.known.learn(given, left)
            session.hidden.note(call_id, result, bodies.joined(left), arguments)
            if not equal(outcome.result, freeze(given)):
                reason = self._cannot_change("result", outcome)
                return Decision("change", reason, bodies.joined(left), _finding(outcome))
        return PASSED

    @asynccontextmanager
    async def _request(self, session: HookSession) -> AsyncGenerator[HostRequest]:
        """Yield one request of a session, and close it."""
        workflow = self._workflow()
        if workflow is not self._used:
            self._host, self._used = _host(workflow), workflow
        async with session.turn, self._host.open(states=session.states, facts=session.facts) as request:
            await request.open()
            try:
                yield request
            finally:
                found = request.run.facts
                session.facts = {key: found[key] for key in _LASTING if key in found}

    def _cannot_change(self, what: str, outcome: Outcome) -> str:
        """Return the reason of a refusal in place of a change: the kinds of findings, without quoting any."""
        kinds = _kinds(outcome)
        cure = "take it out and try again" if what == "prompt" else "it cannot be changed here"
        return f"Penstock: this {what} holds something that must not reach the model{kinds}; {cure}"


_UNREAD = {
    "pdf": "Penstock: no guard can read a PDF; read its text instead, as pdftotext writes it",
    "picture": "Penstock: no guard can read a picture, and the owner of the hook lets none pass",
}
LONGEST = 1_000_000
"""The longest prompt, call or result that is read, in characters. The guards need seconds for it."""

_TOO_LONG = f"Penstock: it is longer than {LONGEST:,} characters, too long to be checked; take it in parts"
_LEAST_TOKEN = 4  # characters
_NOT_RUN = "The call was not run: "


def _tokens(session: HookSession) -> Mapping[str, str]:
    """Return the values that a session can restore, with their tokens."""
    vault: Vault | None = session.facts.get(VAULT)
    return {value: token for token, value in vault.values.items() if len(value) >= _LEAST_TOKEN} if vault else {}


def _is_too_long(value: Value) -> bool:
    return sum(len(text) for _, text in leaves(value)) > LONGEST


def _is_kind(kind: object, fact: object) -> bool:
    """Return whether a fact is a count of findings by type, as guards put it."""
    return isinstance(kind, str) and is_mapping(fact) and type(fact[kind]) is int


def _host(workflow: Workflow) -> Host:
    host = Host(SUPPORT, [workflow], strict=False, records=True)
    if not any(map(host.serves, SUPPORT.stages)):
        raise UsageError(
            f"{workflow.name} has no step for prompts, tool calls or tool results, so it checks nothing here"
        )
    return host


def _denied(outcome: Outcome) -> Decision:
    tripwire = outcome.tripwire
    reason = f"Penstock ({tripwire.processor_id}): {tripwire.reason}" if tripwire else "Penstock"
    return Decision("deny", reason, finding=_finding(outcome))


def _finding(outcome: Outcome) -> str:
    """Return the guards that stopped or changed something, and its kinds, without quoting anything."""
    acted = [one.processor_id for one in outcome.records if one.status in ("tripped", "edited") and not one.shadow]
    by = f"by {', '.join(dict.fromkeys(acted))}" if acted else "because of a value hidden before"
    return f"{by}{_kinds(outcome)}"


def _kinds(outcome: Outcome) -> str:
    """Return the kinds of findings in brackets; empty if there are none."""
    found = {kind for fact in outcome.facts.values() if is_mapping(fact) for kind in fact if _is_kind(kind, fact)}
    return f" ({', '.join(sorted(found))})" if found else ""
