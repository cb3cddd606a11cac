"""`TextsSection`: texts in a request that stand for themselves, such as prompts and inputs. Tokens are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError, UsageError
from penstock.formats.wire import is_array
from penstock.workflows.gateway.sections import TextSection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Value


@dataclass(frozen=True)
class TextsSection(TextSection):
    """A text, or a list of texts. Answers name a text by its place, so each text keeps its own.

    Attributes:
        path: where it stands in the request.
        role: the role of its messages.
    """

    def read(self, value: Value) -> list[tuple[Message, ...]]:
        """Return one message for each text.

        Raises:
            MessageError: there is something else than texts.
        """
        items = value if is_array(value) else [value]
        if not all(isinstance(item, str) for item in items):
            raise MessageError(
                ".".join(map(str, self.path)),
                "holds tokens, or something else that no guard reads; send a text, or a list of texts",
            )
        return super().read(value)

    def write(self, value: Value, items: Sequence[int | tuple[Message, ...]]) -> Value:
        """Return the texts anew.

        Raises:
            UsageError: a processor removed or added one.
        """
        given = value if is_array(value) else [value]
        if len(items) != len(given):
            raise UsageError("a processor removed a text, by whose place the answer names it; let it change or block")
        return super().write(value, items)
