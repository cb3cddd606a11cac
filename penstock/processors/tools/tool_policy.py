"""`ToolPolicy`: which tools an agent may call, with which arguments, how often, and after which results."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.processor.option_checks import check_count
from penstock.engine.processor.payload import Answer, Overrides
from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import ConditionError, OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, FrozenDict, Value, is_mapping
from penstock.engine.values.messages import ToolPart
from penstock.processors.tools.matching import CallCondition, call_condition, fits, name_patterns, truth_of
from penstock.processors.tools.pins import changed_pins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock.engine.processor.context import InputStepContext, ToolCallContext, ToolResultContext, View
    from penstock.engine.processor.processor import EditsClaim

Strategy: TypeAlias = Literal["block", "refuse", "warn"]
Flow: TypeAlias = Literal["deny", "ask"]
UNTRUSTED: Key[tuple[str, ...]] = Key[tuple[str, ...]]("untrusted")
"""The fact with the names of the tools marked untrusted of which the run has read a result."""


@dataclass
class ToolPolicyState:
    """The calls of one request so far.

    Attributes:
        calls: how often each tool was called.
        ids: the ids of these calls.
        judged: the ids of calls that were counted before a person was asked, and not judged since.
    """

    calls: dict[str, int] = field(default_factory=dict[str, int])
    ids: set[str] = field(default_factory=set[str])
    judged: set[str] = field(default_factory=set[str])

    def take_again(self, tool: str, call_id: str) -> None:
        """Take back the count of a call that is judged again, since its request goes on."""
        if call_id in self.judged:
            self.judged.discard(call_id)
            self.calls[tool] = max(self.calls.get(tool, 0) - 1, 0)


class ToolPolicy(Processor[ToolPolicyState]):
    """Decides about each call of a tool before it runs: allowed, denied, or asked about.

    Of several rules that fit a call, the strictest counts: a denial before a question, a question before permission.
    Names are patterns in which ``*`` stands for any characters: ``read_*``.

    What the policy decides about a call is noted in its record (``allowed``, ``denied``, ``asked``, with the rule).

    Args:
        allow: the tools that may run. None: all that no other rule denies. If it is given, others are denied.
        deny: the tools that may not run.
        ask: the tools that a person is asked about. An `Agent` asks as for a tool with ``approval=True``; where nobody
            can be asked, such as in another framework, the call does not run and the model is told so.
        allow_when: a condition that a call must fulfil beside ``allow``.
        deny_when: a condition under which a call is denied.
        ask_when: a condition under which a person is asked. Each is an expression over ``tool.name`` and ``args``, as
            in policy files (``'tool.name == "pay" && args.amount > 100'``; extra ``policy``), or a function of the
            context. One that fails blocks the call.
        limits: how often a tool may be called in one request, by pattern: ``{"search": 5, "*": 20}``. Each pattern
            that fits counts the calls that fit it.
        untrusted: the tools whose results may hold orders of strangers, such as web pages and mail.
        sensitive: the tools that do not run any more once a result of an untrusted tool was read, in this request or
            in the conversation so far: what came from the web may not reach ``send_mail``.
        flow: what happens to such a call: ``deny`` or ``ask``.
        pins: the hash of each tool's definition by its name, as ``penstock pin`` writes them. A tool whose
            definition has changed, or that has no pin, is refused until it is pinned again. None: no pins.
        strategy: what a denial does. ``block``: the request ends. ``refuse``: the call does not run, and the model
            reads the reason as its result; tools with a wrong pin are not offered. ``warn``: it is only noted.
        id: the name of the step; None: ``tool-policy``.

    Raises:
        OptionError: an option is not allowed, or no rule is given.
    """

    id = "tool-policy"
    edits: EditsClaim | None = "anything"
    on_error = "block"
    suspends = False  # it asks about calls by its answer
    provides = (UNTRUSTED,)
    finds = ("calls",)

    def __init__(
        self,
        *,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
        ask: Iterable[str] = (),
        allow_when: CallCondition | None = None,
        deny_when: CallCondition | None = None,
        ask_when: CallCondition | None = None,
        limits: Mapping[str, int] = EMPTY,
        untrusted: Iterable[str] = (),
        sensitive: Iterable[str] = (),
        flow: Flow = "deny",
        pins: Mapping[str, str] | None = None,
        strategy: Strategy = "block",
        id: str | None = None,
    ) -> None:
        name = type(self).__name__
        self.allow = None if allow is None else name_patterns(name, "allow", allow)
        self.deny = name_patterns(name, "deny", deny)
        self.ask = name_patterns(name, "ask", ask)
        self.allow_when = call_condition(name, "allow_when", allow_when)
        self.deny_when = call_condition(name, "deny_when", deny_when)
        self.ask_when = call_condition(name, "ask_when", ask_when)
        self.limits = _limits(name, limits)
        self.untrusted = name_patterns(name, "untrusted", untrusted)
        self.sensitive = name_patterns(name, "sensitive", sensitive)
        self.flow = one_of(name, "flow", flow, get_args(Flow))
        self.pins = _checked_pins(name, pins)
        self.strategy = one_of(name, "strategy", strategy, get_args(Strategy))
        self.reads = ("tool_call",) if self.pins is None else ("tool_call", "tool_definitions")
        if id is not None:
            self.id = id
        if bool(self.untrusted) != bool(self.sensitive):
            option = "sensitive" if self.untrusted else "untrusted"
            raise OptionError(name, option, [], "names of tools: a flow has untrusted= and sensitive=")
        if not self._has_rules:
            raise OptionError(
                name, "allow", allow, "names of tools, or give deny=, ask=, limits=, pins= or a condition"
            )
        self.asks = bool(self.ask or self.ask_when or self.flow == "ask")
        if not self.asks and self.strategy != "refuse":
            self.edits = "nothing"
            self.role = "observer" if self.strategy == "warn" else "guard"

    @property
    def _has_rules(self) -> bool:
        given = (self.deny, self.ask, self.allow_when, self.deny_when, self.ask_when, self.limits, self.untrusted)
        return self.allow is not None or self.pins is not None or any(given)

    def new_state(self) -> ToolPolicyState:
        """Return the counts of a request."""
        return ToolPolicyState()

    def dump_state(self, state: ToolPolicyState) -> Value:
        """Return the counts: a request that was suspended goes on with them."""
        return {"calls": state.calls, "ids": sorted(state.ids)}

    def load_state(self, stored: Value) -> ToolPolicyState:
        """Return the state with these counts; the calls that a person decided about are judged again."""
        return ToolPolicyState(dict(stored["calls"]), set(stored["ids"]), set(stored["ids"]))

    def process_input_step(self, ctx: InputStepContext[ToolPolicyState]) -> Overrides | None:
        """Compare the definitions of the tools on offer with their pins, before the model reads them."""
        if self.pins is None or not ctx.tools:
            return None
        changed = changed_pins(ctx.tools, self.pins)
        if not changed:
            return None
        ctx.note(denied={one: self._pin_reason(one) for one in changed})
        if self.strategy == "block":
            ctx.abort(f"{_listed(changed)}; {_PIN_CURE}", metadata={"tools": list(changed), "rule": "pins"})
        if self.strategy == "warn":
            ctx.flag(*[f"{one}: pins" for one in changed])
            return None
        return Overrides(tools={one: tool for one, tool in ctx.tools.items() if one not in changed})

    def process_tool_call(self, ctx: ToolCallContext[ToolPolicyState]) -> Answer | None:
        """Decide about a call."""
        ctx.state.take_again(ctx.tool_name, ctx.call_id)
        denial, question = next(self._denials(ctx), None), next(self._questions(ctx), None)
        ctx.state.ids.add(ctx.call_id)
        ctx.state.calls[ctx.tool_name] = ctx.state.calls.get(ctx.tool_name, 0) + 1
        shown = _shown(ctx.tool_name)
        if denial is not None:
            rule, reason = denial
            ctx.note(denied={shown: rule})
            if self.strategy == "block":
                ctx.abort(f"{_subject(shown)} {reason}", metadata={"tool": shown, "rule": rule})
            if self.strategy == "refuse":
                return Answer(f"The call was not run: {_subject(shown)} {reason}.")
            ctx.flag(f"{shown}: {rule}")
        if question is not None:
            rule, reason = question
            ctx.note(asked={shown: rule})
            ctx.state.judged.add(ctx.call_id)
            return Answer(f"The call was not run: {_subject(shown)} {reason}.", asks=True)
        if denial is None:
            ctx.note(allowed={shown: "default" if self.allow is None else "allow"})
        return None

    def process_tool_result(self, ctx: ToolResultContext[ToolPolicyState]) -> None:
        """Note a result of an untrusted tool."""
        if fits(self.untrusted, ctx.tool_name):
            read = ctx.get(UNTRUSTED, ())
            if ctx.tool_name not in read:
                ctx.put(UNTRUSTED, (*read, ctx.tool_name))

    def _denials(self, ctx: ToolCallContext[ToolPolicyState]) -> Iterator[tuple[str, str]]:
        name = ctx.tool_name
        if fits(self.deny, name):
            yield "deny", "is not allowed"
        if self.pins is not None and name not in self.pins:  # also where a host does not show its tools
            yield "pins", "has no pin"
        if self.deny_when is not None and _holds("deny_when", self.deny_when, ctx):
            yield "deny_when", "is not allowed with these arguments"
        if self.allow is not None and not fits(self.allow, name):
            yield "allow", "is not allowed"
        if self.allow_when is not None and not _holds("allow_when", self.allow_when, ctx):
            yield "allow_when", "is not allowed with these arguments"
        for pattern, most in self.limits.items():
            if fits((pattern,), name) and _calls_of(pattern, ctx.state) >= most:
                yield "limits", f"may be called {most} times in one request ({pattern})"
        if self.flow == "deny" and (source := self._flow_source(ctx)):
            yield "flow", f"may not run after a result of {source} was read"

    def _questions(self, ctx: ToolCallContext[ToolPolicyState]) -> Iterator[tuple[str, str]]:
        if self.flow == "ask" and (source := self._flow_source(ctx)):
            yield "flow", f"needs approval after a result of {source} was read"
        if fits(self.ask, ctx.tool_name):
            yield "ask", "needs approval"
        if self.ask_when is not None and _holds("ask_when", self.ask_when, ctx):
            yield "ask_when", "needs approval with these arguments"

    def _flow_source(self, ctx: ToolCallContext[ToolPolicyState]) -> str:
        """Return the untrusted tool of which a result was read, if the call is to a sensitive one; else ``""``."""
        if not fits(self.sensitive, ctx.tool_name):
            return ""
        noted = ctx.get(UNTRUSTED, ())
        if noted:
            return _shown(noted[0])
        parts = (part for entry in ctx.entries for part in entry.message.parts)
        named = (part.name or "" for part in parts if isinstance(part, ToolPart) and part.state in ("result", "error"))
        return next((_shown(one) for one in named if fits(self.untrusted, one)), "")

    def _pin_reason(self, name: str) -> str:
        pins = cast("Mapping[str, str]", self.pins)
        return "its definition has changed" if name in pins else "it has no pin"


def _shown(name: str) -> str:
    """Return the name of a tool; a sign for one that does not look like a name.

    A model may call tools that do not exist. Their names are its own text, which no record and no reason may quote.
    """
    return name if _NAME.fullmatch(name) else "?"


def _subject(shown: str) -> str:
    return "a tool of another name" if shown == "?" else f"the tool {shown}"


_PIN_CURE = "look at its description, and pin it again with `penstock pin`"


def _listed(changed: tuple[str, ...]) -> str:
    named = ", ".join(changed)
    if len(changed) == 1:
        return f"the definition of the tool {named} differs from its pin"
    return f"the definitions of the tools {named} differ from their pins"


def _calls_of(pattern: str, state: ToolPolicyState) -> int:
    return sum(count for name, count in state.calls.items() if fits((pattern,), name))


def _limits(owner: str, given: object) -> Mapping[str, int]:
    if not is_mapping(given):
        raise OptionError(owner, "limits", given, "a mapping of names, or patterns such as read_*, to numbers of calls")
    return FrozenDict(
        {
            pattern: check_count(owner, f"limits[{pattern}]", most, "a number of calls, 0 or more")
            for pattern, most in given.items()
        }
    )


_NAME = re.compile(r"[\w.:/-]{1,64}")
_PIN = re.compile(r"sha256:[0-9a-f]{64}")


def _checked_pins(owner: str, given: object) -> Mapping[str, str] | None:
    if given is None:
        return None
    if not is_mapping(given) or not all(isinstance(pin, str) and _PIN.fullmatch(pin) for pin in given.values()):
        raise OptionError(owner, "pins", given, "a mapping of names of tools to sha256:…, as `penstock pin` writes it")
    return FrozenDict(given)


def _holds(option: str, condition: Callable[[View], bool], ctx: ToolCallContext[ToolPolicyState]) -> bool:
    """Return whether a condition holds. A value that is no bool is an error: a forgotten ``return`` allows no call.

    Raises:
        ConditionError: the expression has no value for this call; the message names the option and the tool.
        TypeError: the condition is a function that returned something else.
    """
    try:
        held = cast("object", condition(ctx))
    except ConditionError as error:
        raise ConditionError(f"{option} of a call of {_subject(_shown(ctx.tool_name))}: {error.problem}") from error
    return truth_of(held, "a tool policy")
