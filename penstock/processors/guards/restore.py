"""`Restore`: puts the values back that a `PIIDetector` put tokens for, for the client and for tools."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine.text_guards.guard import TextGuard
from penstock.engine.values.edits import Edit
from penstock.processors.guards.vault import LONGEST_TOKEN, TOKEN, VAULT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.text_guards.whole_texts import Phase

_BEGUN = re.compile(r"\[(?:[A-Z][A-Z0-9_]*)?\Z")


class Restore(TextGuard):
    """Turns tokens such as ``[EMAIL_1]`` back into what they stand for, in answers and in tools' arguments.

    It restores what the run's vault holds, and nothing else. It is no guard: put it behind those that judge answers.
    """

    id = "restore"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    reach = LONGEST_TOKEN + 1
    lookback = LONGEST_TOKEN

    def __init__(
        self,
        *,
        phase: Phase = "output",
        parts: Iterable[str] | None = None,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            phase: ``output`` (answers and calls to tools), ``input`` or ``all``.
            parts: the kinds of parts to look into; all that carry text by default.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        self.place(phase, parts, history=False, system=False)
        self.edits = "spans"

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        """Return the edits that put values in place of tokens."""
        del final
        vault = ctx.get(VAULT)
        if not vault or "[" not in text:
            return []
        return [
            Edit(*found.span(), vault.values[found.group()], "replace")
            for found in TOKEN.finditer(text)
            if found.group() in vault.values
        ]

    def hold(self, text: str, start: int) -> int:
        """Return where a token may have begun that the text does not show whole."""
        begun = _BEGUN.search(text, max(start, len(text) - LONGEST_TOKEN))
        return begun.start() if begun else len(text)
