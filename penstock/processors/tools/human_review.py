"""`HumanReview`: asks a person about inputs, calls and results of tools, and answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from penstock.engine.processor.option_checks import check_names, check_number, check_text
from penstock.engine.processor.payload import Answer
from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import freeze
from penstock.engine.values.messages import TextPart
from penstock.processors.tools.matching import CallCondition, call_condition, fits, name_patterns, truth_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import (
        Context,
        InputContext,
        OutputResultContext,
        ToolCallContext,
        ToolResultContext,
    )
    from penstock.engine.processor.processor import EditsClaim
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList

ReviewPlace: TypeAlias = Literal["input", "tool_call", "tool_result", "output"]
OnExpiry: TypeAlias = Literal["refuse"]

REVIEW: Values = freeze(
    {
        "type": "object",
        "properties": {
            "decision": {"enum": ["approve", "reject"]},
            "reason": {"type": "string", "maxLength": 500, "description": "why it is rejected"},
            "text": {"type": "string", "description": "replaces the text that is shown; guards judge it"},
        },
        "required": ["decision"],
        "additionalProperties": False,
    }
)
"""The schema of a reviewer's answer."""


class HumanReview(Processor[Any]):
    """Asks a person before a request goes on: about its input, calls and results of tools, or its answer.

    The person reads the text as the guards of the stage left it, and answers ``{"decision": "approve"}`` or
    ``{"decision": "reject", "reason": "…"}``. With ``text``, an approval replaces the text; the guards judge it like
    any other. A rejection blocks the request.

    Calls of tools are asked about as by `ToolPolicy`: an agent asks for an approval of the call.

    Where nobody can be asked, the request is blocked, and a tool is not run.

    Args:
        at: where it asks: ``input``, ``tool_call``, ``tool_result``, ``output`` (the whole answer, at its end).
        when: asks only if this condition holds: an expression as in policy files (``'text.contains("refund")'``; extra
            ``policy``), or a function of the context. None: always. One that fails blocks the request.
        tools: the tools whose calls and results it asks about, as patterns in which ``*`` stands for any characters.
            None: all.
        question: the question to the person.
        reviewers: the names or roles of those who may answer. They are part of the question; whoever takes the answers
            has to check them.
        expires_in: the seconds within which an answer is expected. None: no limit.
        on_expiry: ``refuse``: the question expires then. None: it stays open, and the time is only shown.
        id: the name of the step; None: ``human-review``.

    Raises:
        OptionError: an option is not allowed, or ``tools`` is given although it asks about no tools.
    """

    id = "human-review"
    edits: EditsClaim | None = "anything"
    on_error = "block"
    asks = True

    def __init__(
        self,
        at: Iterable[ReviewPlace] = ("output",),
        *,
        when: CallCondition | None = None,
        tools: Iterable[str] | None = None,
        question: str = "Is this allowed?",
        reviewers: Iterable[str] = (),
        expires_in: float | None = None,
        on_expiry: OnExpiry | None = "refuse",
        id: str | None = None,
    ) -> None:
        name = type(self).__name__
        self.at = check_names(name, "at", at)
        for place in self.at:
            one_of(name, "at", place, get_args(ReviewPlace))
        self.when = call_condition(name, "when", when)
        self.tools = None if tools is None else name_patterns(name, "tools", tools)
        if self.tools is not None and not {"tool_call", "tool_result"} & {*self.at}:
            raise OptionError(name, "tools", self.tools, "None, or name tool_call or tool_result in at=")
        self.question = check_text(name, "question", question, blank=False)
        self.reviewers = check_names(name, "reviewers", reviewers) if reviewers else ()
        if expires_in is not None:
            check_number(name, "expires_in", expires_in, "a number of seconds above 0, or None", above=True)
        self.expires_in = expires_in
        self.on_expiry = None if on_expiry is None else one_of(name, "on_expiry", on_expiry, get_args(OnExpiry))
        self.stages = tuple(_STAGES[place] for place in self.at)
        if id is not None:
            self.id = id

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Ask about the messages of the caller."""
        return self._of_messages(ctx)

    def process_output_result(self, ctx: OutputResultContext) -> MessageList | None:
        """Ask about the answer."""
        return self._of_messages(ctx)

    def process_tool_call(self, ctx: ToolCallContext) -> Answer | None:
        """Ask for an approval of a call."""
        if not self._is_about(ctx, ctx.tool_name):
            return None
        return Answer("The call was not run: a person must approve it.", asks=True)

    def process_tool_result(self, ctx: ToolResultContext) -> Answer | None:
        """Ask about the result of a tool."""
        if not self._is_about(ctx, ctx.tool_name):
            return None
        text = self._reviewed(ctx, {"tool": ctx.tool_name, "result": ctx.result})
        return None if text is None else Answer(text)

    def _of_messages(self, ctx: Context[Any]) -> MessageList | None:
        """Return the conversation with the reviewer's text in place of the one shown; None if it stays."""
        if not self._is_about(ctx):
            return None
        text = self._reviewed(ctx, {"text": ctx.text})
        if text is None or not ctx.messages:
            return None
        *earlier, last = ctx.messages
        others = [part for part in last.parts if not isinstance(part, TextPart)]
        messages = ctx.message_list.replace(replace(last, parts=(TextPart(text), *others)))
        gone = [one.id for one in earlier if one.text and one.role == last.role]
        return messages.remove(*gone) if gone else messages

    def _is_about(self, ctx: Context[Any], tool: str | None = None) -> bool:
        if tool is not None and self.tools is not None and not fits(self.tools, tool):
            return False
        return self.when is None or truth_of(self.when(ctx), "a review")

    def _reviewed(self, ctx: Context[Any], shown: dict[str, Value]) -> str | None:
        """Return the text that the reviewer wrote in place of the one shown; None if there is none."""
        shown["reviewers"] = self.reviewers
        if self.expires_in is not None:
            shown["expires_in"] = self.expires_in
        expires_in = self.expires_in if self.on_expiry == "refuse" else None
        answer = cast("Values", ctx.suspend(self.question, schema=REVIEW, show=shown, expires_in=expires_in))
        if answer["decision"] == "reject":
            reason: str = answer.get("reason", "").strip()
            quoted = _quotes(reason, ctx.text)
            told = f": {reason}" if reason and not quoted else ""
            ctx.abort(f"a person has rejected it{told}", metadata={"rejected": True})
        return answer.get("text")


_STAGES = {
    "input": "process_input",
    "tool_call": "process_tool_call",
    "tool_result": "process_tool_result",
    "output": "process_output_result",
}
_LONGEST_QUOTE = 20  # characters in a row


def _quotes(reason: str, text: str) -> bool:
    """Return whether a reason quotes a stretch of the text; such a one is left out of the verdict."""
    last = len(reason) - _LONGEST_QUOTE
    return any(reason[start : start + _LONGEST_QUOTE] in text for start in range(last + 1))
