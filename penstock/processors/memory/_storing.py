"""Select the messages and parts of a conversation to store, with vault tokens in place of hidden values.

Not stored are system messages, parts and messages marked as transient, calls with incomplete arguments, and what
belongs to the working memory, which is stored elsewhere: calls of its tool, and its elements in texts.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote
from weakref import WeakKeyDictionary

from penstock.detection.deferred import deferred
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.message_list import TEXT_KINDS, MessageList
from penstock.engine.values.messages import TextPart, ToolPart
from penstock.models.conversations import has_content

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.messages import Message, Part


# Which parts are stored

WORKING_MEMORY_TOOLS = ("update_working_memory", "updateWorkingMemory")
"""The names of the working memory tool, here and in the reference system."""

_OPENING_TAG = deferred(r"<working_memory(?:\s[^<>]{0,200})?>")
_CLOSING_TAG = "</working_memory>"


def storable_message(message: Message, tools: Collection[str] = WORKING_MEMORY_TOOLS) -> Message | None:
    """Return a message as it is stored; None if nothing of it is. ``tools``: the tools whose calls are not stored."""
    if message.role == "system" or _is_transient(message):
        return None
    parts = [stored for part in message.parts if (stored := _storable_part(part, tools)) is not None]
    if not has_content(parts):
        return None
    return message if _same(parts, message.parts) else message.with_parts(parts)


def without_working_memory(text: str) -> str:
    """Return a text without elements of a working memory, stripped if there were any. Unclosed elements stay."""
    pieces: list[str] = []
    at = 0
    while opening := _OPENING_TAG.search(text, at):
        closing = text.find(_CLOSING_TAG, opening.end())
        if closing < 0:
            break
        pieces.append(text[at : opening.start()])
        at = closing + len(_CLOSING_TAG)
    return "".join([*pieces, text[at:]]).strip() if pieces else text


def _storable_part(part: Part, tools: Collection[str]) -> Part | None:
    """Return a part as it is stored; None if it is not."""
    if part.metadata.get("transient") is True:
        return None
    if isinstance(part, ToolPart):
        return None if part.state == "partial" or part.name in tools else part
    if isinstance(part, TextPart):
        text = without_working_memory(part.text)
        if text != part.text:
            return replace(part, text=text) if text else None
    return part


def _is_transient(message: Message) -> bool:
    """Return whether a message is meant for one run only: by its own metadata, or that of the signal it was made of."""
    signal = message.metadata.get("signal")
    return any(each.get("transient") is True for each in (message.metadata, signal) if is_mapping(each))


def _same(parts: list[Part], before: tuple[Part, ...]) -> bool:
    return len(parts) == len(before) and all(one is other for one, other in zip(parts, before, strict=True))


# Which characters are stored


def storable_text(text: str) -> str:
    """Return a text without NUL characters, and with question marks for lone surrogates: every store accepts it."""
    return text.replace("\x00", "").encode(errors="replace").decode()


# Vault tokens in place of values

_SHORT = 2
"""Values of up to this many characters are replaced only as whole words: within words they are chance matches."""


class _Vault(Protocol):
    @property
    def values(self) -> Mapping[str, str]:
        """The values by their tokens."""
        ...


VAULT: Key[_Vault] = Key("vault")
"""The fact with the vault of a run. It equals `penstock.processors.guards.VAULT`: keys are equal by name."""


MOST_VAULTS = 10_000
"""How many threads of a storage have a vault; those that were not used for longest lose theirs."""

_VAULTS: WeakKeyDictionary[object, ThreadVaults] = WeakKeyDictionary()


class ThreadVaults:
    """The vaults of a storage's threads, and of its suspended runs, by their ids. The values are never stored."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Vault] = OrderedDict()

    def load(self, ctx: AnyContext, thread_id: str) -> None:
        """Give a run the vault of its thread, unless it has one."""
        kept = self.get(thread_id)
        if kept is not None and ctx.get(VAULT) is None:
            ctx.put(VAULT, kept)

    def get(self, key: str) -> _Vault | None:
        """Return the vault of a thread, or of a run that is suspended; None if this process has none."""
        return self._kept.get(key)

    def save(self, ctx: AnyContext, thread_id: str) -> None:
        """Keep the vault of a run for the next run of the thread."""
        self.put(thread_id, ctx.get(VAULT))

    def put(self, key: str, vault: _Vault | None) -> None:
        """Keep a vault, if there is one."""
        if vault is None:
            return
        self._kept[key] = vault
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_VAULTS:
            self._kept.popitem(last=False)

    def forget(self, thread_id: str) -> None:
        """Forget the vault of a thread that is new, or was deleted."""
        self._kept.pop(thread_id, None)


def vaults_of(storage: object) -> ThreadVaults:
    """Return the vaults of a storage, which all histories over it share; new ones if it cannot be a weak key."""
    try:
        return _VAULTS.setdefault(storage, ThreadVaults())
    except TypeError:
        return ThreadVaults()


def text_redactor(ctx: AnyContext) -> Callable[[str], str] | None:
    """Return a function that puts the tokens of the run's vault in place of their values in texts.

    A `PIIDetector` hides values in the vault, and a `Restore` puts them back for the client, in links with percent
    codes. Stored texts must have the tokens. Returns None if the vault is empty or missing. The function uses the vault
    as it is now.
    """
    return vault_redactor(ctx.get(VAULT))


def vault_redactor(vault: _Vault | None) -> Callable[[str], str] | None:
    """Return a function that puts the tokens of a vault in place of their values; None if it is empty or missing."""
    values = {} if vault is None else {value: token for token, value in vault.values.items() if value}
    tokens = {quote(value, safe="@", errors="surrogatepass"): token for value, token in values.items()} | values
    if not tokens:
        return None
    longest_first = sorted(tokens, key=len, reverse=True)
    pattern = re.compile("|".join(map(_pattern, longest_first)))
    return lambda text: pattern.sub(lambda found: tokens[found.group()], text)


def message_redactor(ctx: AnyContext) -> Callable[[Sequence[Message]], Sequence[Message]]:
    """Return a function that does the same in the texts of messages; see `text_redactor`."""
    changed = text_redactor(ctx)
    if changed is None:
        return _unchanged

    def redacted(messages: Sequence[Message]) -> Sequence[Message]:
        listed = MessageList(messages, source="response")
        return tuple(listed.map_text(changed, kinds=TEXT_KINDS))  # type: ignore[arg-type]  # all kinds of text

    return redacted


def _unchanged(messages: Sequence[Message]) -> Sequence[Message]:
    return messages


def _pattern(value: str) -> str:
    literal = re.escape(value)
    return rf"(?<!\w){literal}(?!\w)" if len(value) <= _SHORT else literal
