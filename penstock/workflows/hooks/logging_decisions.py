"""`log_decision`: the line of ``hook.log`` about a decision, without texts of prompts, calls or results."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.workflows.hooks.decisions import Decision, HookCall, Kind

_log = logging.getLogger(__name__)
_NAME = re.compile(r"[\w.:-]{1,100}")
_WORDS = {"ask": "asked", "change": "changed", "deny": "denied"}
_WORDS_OF_RESULTS = {"change": "hidden", "deny": "withheld"}


def log_decision(product: str, call: HookCall, kind: Kind | None, decision: Decision, *, stops: bool) -> None:
    """Log the product, event and tool of a call, and the decision with guard and kinds; nothing for one that passes.

    Args:
        product: the name of the product.
        call: the call.
        kind: the kind of its event.
        decision: the decision about it.
        stops: whether it stops the conversation.
    """
    if decision.action == "pass":
        return
    words = {**_WORDS, **_WORDS_OF_RESULTS} if kind == "result" else _WORDS
    done = "conversation stopped" if stops or kind == "results" else words[decision.action]
    tool = call.text("tool_name")
    place = f"{_named(call.event)} {_named(tool)}" if tool else _named(call.event)
    _log.info("%s %s: %s%s", product, place, done, f" {decision.finding}" if decision.finding else "")


def _named(name: str) -> str:
    """Return a name; a model may write a text in its place, which is not logged."""
    return name if _NAME.fullmatch(name) else "?"
