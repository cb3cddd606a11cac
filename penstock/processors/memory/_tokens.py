"""Tokens in place of the values that a `PIIDetector` hid and a `Restore` put back: the form in which things are kept.

It knows the run's vault by its name, no guard: what was redacted is never stored in the raw, whoever else may see it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from penstock.engine.values.facts import Key
from penstock.engine.values.message_list import TEXT_KINDS, MessageList

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.messages import Message

_SHORT = 2
"""Characters of a value that is hidden only where it stands alone: within other words it is none."""


class _Vault(Protocol):
    @property
    def values(self) -> Mapping[str, str]:
        """The value of each token."""
        ...


VAULT: Key[_Vault] = Key("vault")
"""The fact under which the run's vault is kept (`VAULT` of the guards; keys are equal by name)."""


def text_tokeniser(ctx: AnyContext) -> Callable[[str], str] | None:
    """Return what puts the tokens of the run's vault, as it is now, in place of their values; None: it holds none."""
    vault = ctx.get(VAULT)
    tokens = {} if vault is None else {value: token for token, value in vault.values.items() if value}
    if not tokens:
        return None
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = re.compile("|".join(map(_pattern, longest_first)))
    return lambda text: pattern.sub(lambda found: tokens[found.group()], text)


def tokeniser(ctx: AnyContext) -> Callable[[Sequence[Message]], Sequence[Message]]:
    """Return what does so in messages' texts."""
    changed = text_tokeniser(ctx)
    if changed is None:
        return _unchanged

    def tokenised(messages: Sequence[Message]) -> Sequence[Message]:
        listed = MessageList(messages, source="response")
        return tuple(listed.map_text(changed, kinds=TEXT_KINDS))  # type: ignore[arg-type]  # all that there are

    return tokenised


def _unchanged(messages: Sequence[Message]) -> Sequence[Message]:
    return messages


def _pattern(value: str) -> str:
    literal = re.escape(value)
    return rf"(?<!\w){literal}(?!\w)" if len(value) <= _SHORT else literal
