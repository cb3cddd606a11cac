"""The preset ``hygiene``: normalise texts and hide personal data, secrets and links, without a model or a network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.engine.processor.processor import Processor
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import Message
from penstock.engine.workflow import Workflow
from penstock.processors.text import UnicodeNormalizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.detection.places.owner import Allowed, Fields
    from penstock.engine.processor.context import InputContext, View
    from penstock.engine.text_guards.scope import Phase, SystemMessages, Unscanned
    from penstock.engine.values.facts import Key
    from penstock.engine.values.message_list import MessageList

Strategy = Literal["redact", "block", "warn"]

NOTE = (
    "Some values in the messages were replaced by placeholders in square brackets, such as [EMAIL], before you saw "
    "them. Refer to a value by its placeholder; do not guess it, and do not ask for it."
)
"""The system message that explains placeholders to the model."""

_PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_-]*\]")
_WORD = re.compile(r"\w+")


def hygiene(
    *,
    personal: Strategy = "redact",
    secrets: Strategy = "redact",
    links: Strategy = "redact",
    fields: Fields = EMPTY,
    allow: Iterable[Allowed] = (),
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
) -> Workflow:
    """Normalise texts, and hide personal data, secrets and links.

    Invisible characters are removed first, because they hide values from patterns. Then three filters run in parallel
    on the same text. If more values were hidden than words are left, the message is blocked; if fewer, a system message
    explains the placeholders to the model. Answers and the results of tools are filtered, too; links in answers stay,
    since they are the application's own. Nothing is async.

    Args:
        personal: what to do with e-mail addresses, and with phone, card and identity numbers: ``redact``, ``block`` or
            ``warn``.
        secrets: the same for keys, tokens and passwords.
        links: the same for web addresses on the way to the model.
        fields: names of rules, or types, by the paths of values in JSON, or None for values to leave alone, as in
            ``{"customer.phone": "phone", "*.cursor": None}``; see `RegexFilterProcessor`.
        allow: values, patterns, functions, domains and kinds that are not hidden; see `RegexFilterProcessor`.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.

    Raises:
        OptionError: an option is not allowed.
    """
    from penstock.processors.text import RegexFilterProcessor  # not loaded for `plain_letters` alone

    chosen: Mapping[str, tuple[str, Strategy, Phase]] = {
        "personal-data": ("pii", personal, "all"),
        "secrets": ("secrets", secrets, "all"),
        "links": ("urls", links, "input"),
    }
    allowed = tuple(allow)
    filters = [
        RegexFilterProcessor(
            presets=[name],
            strategy=strategy,
            phase=phase,
            fields=fields if name == "pii" else {path: None for path, type in fields.items() if type is None},
            allow=allowed,
            system=system,
            unscanned=unscanned,
            id=id,
        )
        for id, (name, strategy, phase) in chosen.items()
    ]
    hidden = tuple(one.findings for one in filters if one.strategy == "redact")
    return (
        Workflow("hygiene")
        .then(UnicodeNormalizer(system=system))
        .parallel(*filters)
        .branch((MostlyHidden(hidden), RefuseMostlyHidden()), (SomethingHidden(hidden), ExplainPlaceholders()))
    )


def plain_letters(system: SystemMessages) -> UnicodeNormalizer:
    """Return the normaliser that comes first in the presets of guards.

    It replaces full-width and styled letters and look-alikes by plain ones, and removes invisible characters. Guards
    read through such disguises themselves; with this step, the model and your own steps get plain letters, too.

    Args:
        system: which system messages it normalises.
    """
    return UnicodeNormalizer(form="NFKC", confusables="fold", system=system)


@dataclass(frozen=True, repr=False)
class SomethingHidden:
    """The condition that some value of the text was replaced by a placeholder.

    Attributes:
        found: the facts of the filters: how many values of each kind they found.
    """

    found: tuple[Key[Mapping[str, int]], ...]

    def __call__(self, view: View) -> bool:
        """Return whether a value was hidden."""
        return self.count(view) > 0

    def count(self, view: View) -> int:
        """Return how many values were hidden.

        These are the placeholders in the text, but no more than values were found: users may type a placeholder, too.
        """
        found = sum(sum((view.get(key) or {}).values()) for key in self.found)
        return min(found, len(_PLACEHOLDER.findall(view.text))) if found else 0

    def __repr__(self) -> str:
        """Return the label for a diagram."""
        return "something hidden"


@dataclass(frozen=True, repr=False)
class MostlyHidden(SomethingHidden):
    """The condition that more values of the text were hidden than words are left."""

    def __call__(self, view: View) -> bool:
        """Return whether that is so."""
        return self.count(view) > len(_WORD.findall(_PLACEHOLDER.sub(" ", view.text)))

    def __repr__(self) -> str:
        """Return the label for a diagram."""
        return "more hidden than left"


class RefuseMostlyHidden(Processor[Any]):
    """Blocks an input that consists mostly of placeholders."""

    id = "mostly-hidden"
    edits = "nothing"
    on_error = "block"

    def process_input(self, ctx: InputContext) -> None:
        """Block the run."""
        ctx.abort("the message consists mostly of hidden values")


class ExplainPlaceholders(Processor[Any]):
    """Explains the placeholders to the model, in a system message of its own."""

    id = "explain-hidden"
    role = "transform"
    on_error = "allow"

    def process_input(self, ctx: InputContext) -> MessageList:
        """Add the message, or replace the earlier one."""
        ctx.note(added="a note on placeholders")
        return ctx.message_list.replace_system(Message.system(NOTE), tag=self.id)
