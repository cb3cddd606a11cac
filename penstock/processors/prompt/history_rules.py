"""`HistoryRule`: how a conversation is made fit for a provider; it knows no rule, and no provider by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.models.conversations.providers import Recipient

Rewrite: TypeAlias = "Callable[[tuple[Message, ...], Recipient], Sequence[Message] | None]"
"""Makes other messages of a prompt, for whom it is for; None for no change."""

Fix: TypeAlias = "Callable[[tuple[Message, ...]], Sequence[Message] | None]"
"""Makes other messages of a conversation that a provider refused; None for no change."""

_MOST = 20_000  # characters of what an error says: what is wrong stands at its beginning
_CAUSES = 8  # how far back the causes of an error are read


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """One thing that a provider would refuse, and what to do about it: before each call, or once it has refused.

    Attributes:
        name: what records call it.
        apply_to_prompt: called with the prompt of every call, system messages first, and its `Recipient`; the messages
            that it returns are sent in this call alone.
        fix: called with the conversation, without system messages, when a model call failed with an error that one of
            the patterns matches; the messages that it returns stay, and the call is made again.
        error_patterns: regular expressions, searched for in what the error and its causes say, letter cases aside.

    Raises:
        OptionError: it has no name, does nothing, or has a fix without patterns or patterns without a fix.
    """

    name: str
    apply_to_prompt: Rewrite | None = None
    fix: Fix | None = None
    error_patterns: Sequence[str | re.Pattern[str]] = ()

    def __post_init__(self) -> None:
        """Check what was given, and compile the patterns."""
        given: Value = self.name
        if not isinstance(given, str) or not given:
            raise OptionError("HistoryRule", "name", given, "a non-empty str")
        object.__setattr__(self, "error_patterns", tuple(_compiled(self.error_patterns)))
        if self.apply_to_prompt is None and self.fix is None:
            raise OptionError("HistoryRule", "fix", None, "given, unless apply_to_prompt is")
        if (self.fix is None) != (not self.error_patterns):
            raise OptionError("HistoryRule", "error_patterns", (), "given together with fix, which they call")

    def is_about(self, said: Iterable[str]) -> bool:
        """Tell whether one of the patterns matches something that was said."""
        patterns = cast("Sequence[re.Pattern[str]]", self.error_patterns)
        return any(pattern.search(text) for text in said for pattern in patterns)


def _compiled(given: Value) -> Iterator[re.Pattern[str]]:
    allowed = "a list of regular expressions"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise OptionError("HistoryRule", "error_patterns", given, allowed)
    for pattern in cast("Iterable[str | re.Pattern[str]]", given):
        try:
            yield re.compile(pattern, re.IGNORECASE) if isinstance(pattern, str) else re.compile(pattern)
        except (re.error, TypeError):
            raise OptionError("HistoryRule", "error_patterns", pattern, allowed) from None


def said_by(error: BaseException) -> tuple[str, ...]:
    """Return what an error and its causes say, and the bodies of the answers that they carry."""
    said: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(seen) < _CAUSES:
        seen.add(id(cause))
        body: object = getattr(cause, "body", None)
        said += [text[:_MOST] for text in (str(cause), body) if isinstance(text, str) and text]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return tuple(said)
