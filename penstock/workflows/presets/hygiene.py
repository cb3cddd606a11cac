"""The preset ``hygiene``: what every agent that talks to people wants first; offline, sync, without a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.engine.processor.processor import Processor
from penstock.engine.values.messages import Message
from penstock.engine.workflow import Workflow
from penstock.processors.text import RegexFilterProcessor, UnicodeNormalizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.processor.context import InputContext, View
    from penstock.engine.values.facts import Key
    from penstock.engine.values.message_list import MessageList

Strategy = Literal["redact", "block", "warn"]

NOTE = (
    "Some values in the messages were replaced by placeholders in square brackets, such as [EMAIL], before you saw "
    "them. Refer to a value by its placeholder; do not guess it, and do not ask for it."
)
"""What the model is told about placeholders."""

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_-]*\]")
_WORD = re.compile(r"\w+")


def hygiene(*, personal: Strategy = "redact", secrets: Strategy = "redact", links: Strategy = "redact") -> Workflow:
    """Normalise texts; hide personal data, secrets and links; refuse what is little else, and explain what was hidden.

    Invisible characters go first, for they hide the rest from patterns. Three filters then look at one text side by
    side. Where more values were hidden than words are left, there is nothing to answer, and the message is refused;
    where fewer were, the model is told what the placeholders mean. Answers and tools' results are filtered too.

    Args:
        personal: what becomes of e-mail addresses, phone, card and identity numbers: ``redact``, ``block``, ``warn``.
        secrets: what becomes of keys, tokens and passwords.
        links: what becomes of web addresses.
    """
    filters = (
        RegexFilterProcessor(presets=["pii"], strategy=personal, id="personal-data"),
        RegexFilterProcessor(presets=["secrets"], strategy=secrets, id="secrets"),
        RegexFilterProcessor(presets=["urls"], strategy=links, id="links"),
    )
    hidden = tuple(one.findings for one in filters if one.strategy == "redact")
    return (
        Workflow("hygiene")
        .then(UnicodeNormalizer())
        .parallel(*filters)
        .branch((MostlyHidden(hidden), RefuseMostlyHidden()), (SomethingHidden(hidden), ExplainPlaceholders()))
    )


@dataclass(frozen=True, repr=False)
class SomethingHidden:
    """The condition that a value of the text is hidden.

    Attributes:
        found: the facts under which the filters that redact tell how much of what kind they found.
    """

    found: tuple[Key[Mapping[str, int]], ...]

    def __call__(self, view: View) -> bool:
        """Tell whether there is one."""
        return self.count(view) > 0

    def count(self, view: View) -> int:
        """Return how many are hidden: placeholders, but no more than were found, for people type them too."""
        found = sum(sum((view.get(key) or {}).values()) for key in self.found)
        return min(found, len(_PLACEHOLDER.findall(view.text))) if found else 0

    def __repr__(self) -> str:
        """Return what a diagram says."""
        return "something hidden"


@dataclass(frozen=True, repr=False)
class MostlyHidden(SomethingHidden):
    """The condition that more values of the text are hidden than words are left."""

    def __call__(self, view: View) -> bool:
        """Tell whether they are."""
        return self.count(view) > len(_WORD.findall(_PLACEHOLDER.sub(" ", view.text)))

    def __repr__(self) -> str:
        """Return what a diagram says."""
        return "more hidden than left"


class RefuseMostlyHidden(Processor[Any]):
    """Stops an input of which little is left but placeholders."""

    id = "mostly-hidden"
    edits = "nothing"
    on_error = "block"

    def process_input(self, ctx: InputContext) -> None:
        """Stop the run."""
        ctx.abort("little is left but hidden values")


class ExplainPlaceholders(Processor[Any]):
    """Tells the model what the placeholders mean, in a system message of its own."""

    id = "explain-hidden"
    role = "transform"
    on_error = "allow"

    def process_input(self, ctx: InputContext) -> MessageList:
        """Add the message, or put it back where it was."""
        ctx.note(added="a note on placeholders")
        return ctx.message_list.replace_system(Message.system(NOTE), tag=self.id)
