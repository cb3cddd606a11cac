"""`PIIAction`: masks, hashes or removes personal data, puts placeholders or tokens, logs it, or stops the run."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal, NoReturn, cast, get_args

from penstock.detection.deferred import deferred
from penstock.detection.places.evidence import evidence_of
from penstock.engine.processor.processor import one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.texts import leaves, part_texts
from penstock.processors.guards.restore import VAULT, Numbering, Vault
from penstock.processors.guards.span_action import SpanAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Hit
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Value
    from penstock.processors.guards.pii_search import PIISearch
    from penstock.processors.guards.span_findings import SpanFinding

Method = Literal["mask", "hash", "remove", "placeholder", "token"]

_METHODS: tuple[str, ...] = get_args(Method)
_PROCESS_KEY = os.urandom(32)  # of hashes, if none is given: equal values have equal hashes while the process lives

_DIGIT = deferred(r"\d")
_HEX = deferred(r"[0-9A-Fa-f]")
_SHOWN = 4  # characters at the end of a number that stay readable
_HIDDEN = 3  # stars of a number that is a mask already
_FLAT = 8  # characters of a mask that keeps no form, at most
_WALLET, _IBAN, _OTHER = 8, 6, 3  # values of no more characters are hidden whole
_LOCAL = 2  # a local part of no more characters is hidden whole


def mask(type: str, value: str, *, preserve_format: bool = True) -> str:
    """Return a value with most of its characters replaced by stars.

    Args:
        type: the type of the value; it decides which characters stay.
        value: the value.
        preserve_format: whether part of the value stays readable: the last digits of a number, the ends of a name. If
            not, the mask has at most 8 stars.
    """
    if not preserve_format:
        return _flat(value)
    return _MASKS.get(type, _other)(value)


def keyed_hash(value: str, key: bytes, length: int) -> str:
    """Return ``[HASH:…]`` with the first ``length`` hexadecimal digits of the value's HMAC-SHA-256."""
    return f"[HASH:{hmac.new(key, value.encode('utf-8', 'surrogatepass'), hashlib.sha256).hexdigest()[:length]}]"


def placeholder(type: str) -> str:
    """Return the name of the type in brackets: ``[EMAIL]``."""
    return f"[{type.upper()}]"


def _flat(value: str) -> str:
    return "*" * min(len(value), _FLAT)


def _email(value: str) -> str:
    if value.count("@") != 1:
        return _flat(value)
    local, domain = value.replace("\\", "*").split("@")  # part of an escape, which a mask cuts
    first, dot, rest = domain.partition(".")
    shown = f"{local[0]}{'*' * (len(local) - 2)}{local[-1]}" if len(local) > _LOCAL else "***"
    return f"{shown}@{'*' * len(first)}{dot}{rest}" if dot else f"{shown}@***"


def _number(star: str) -> Callable[[str], str]:
    """Return a mask that keeps the digits among the last characters, if there are others to hide, or hidden already."""

    def masked(value: str) -> str:
        if value.count(star) >= _HIDDEN and not _DIGIT.search(value[:-_SHOWN]):
            return value
        shown = _SHOWN if len(_DIGIT.findall(value)) > _SHOWN else 0
        cut = len(value) - shown
        return _DIGIT.sub(star, value[:cut]) + value[cut:]

    return masked


def _ends(first: int, last: int, least: int) -> Callable[[str], str]:
    """Return a mask that keeps the ends of values longer than ``least`` characters.

    It keeps no backslash: that would escape the mask, or what stands behind the value, and JSON would not parse.
    """

    def masked(value: str) -> str:
        if len(value) <= least:
            return "*" * len(value)
        shown = f"{value[:first]}{'*' * (len(value) - first - last)}{value[len(value) - last :]}"
        return shown.replace("\\", "*")

    return masked


_other = _ends(1, 1, _OTHER)

_MASKS: Mapping[str, Callable[[str], str]] = {
    "email": _email,
    "phone": _number("X"),
    "credit-card": _number("*"),
    "ssn": _number("*"),
    "uuid": lambda value: _HEX.sub("*", value),
    "crypto-wallet": _ends(4, 4, _WALLET),
    "iban": _ends(2, 4, _IBAN),
}


@dataclass(frozen=True)
class Redaction:
    """How values are replaced.

    Attributes:
        methods: the method of each type that has its own, and under ``*`` that of the others.
        preserve_format: whether a mask leaves part of a value readable.
        hash_key: the key of hashes.
        hash_length: the number of hexadecimal digits of a hash.
    """

    methods: Mapping[str, str]
    preserve_format: bool
    hash_key: bytes
    hash_length: int

    def method(self, type: str) -> str:
        """Return the method of a type."""
        return self.methods.get(type, self.methods["*"])

    def replacement(self, text: str, type: str, *, encoded: bool = False) -> str:
        """Return what replaces a value; its method is not ``token``.

        A mask of encoded text keeps no form, since letters that it leaves would tell the value.
        """
        method = self.method(type)
        if method == "mask":
            return mask(type, text, preserve_format=self.preserve_format and not encoded)
        if method == "hash":
            return keyed_hash(text, self.hash_key, self.hash_length)
        return placeholder(type) if method == "placeholder" else ""


class PIIAction(SpanAction):
    """Acts on personal data.

    Attributes:
        redaction: how values are replaced.
    """

    def __init__(self, search: PIISearch, actions: Mapping[str, str], redaction: Redaction, *, counts: bool) -> None:
        super().__init__(search, actions)
        self.redaction = redaction
        self._counts = counts

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Note which evidence of their places counted for the findings; then act on them."""
        said = _evidence(hits)
        if said:
            ctx.note(evidence=said)
        return super().act(hits, ctx)

    def replacements(self, found: Sequence[tuple[str, SpanFinding]], ctx: AnyContext) -> Sequence[str]:
        """Return what replaces each value; the values of new tokens go into the run's vault."""
        redaction = self.redaction
        numbering: Numbering | None = None
        made: list[str] = []
        for text, item in found:
            if redaction.method(item.type) != "token":
                made.append(redaction.replacement(text, item.type, encoded=item.encoded))
                continue
            numbering = numbering or _numbering(ctx)
            made.append(numbering.token(item.type, text))
        if numbering is not None:
            ctx.put(VAULT, numbering.vault())
        return made

    def block(self, ctx: AnyContext, types: Sequence[str], metadata: Mapping[str, Value], why: str) -> NoReturn:
        """Stop the run; with ``include_detections`` the reason says how much was found."""
        super().block(ctx, types, metadata, f"{len(types)} found; {why}" if self._counts else why)


def _evidence(hits: Sequence[Hit]) -> dict[str, Value]:
    """Return the evidence for findings by type, without any text of the values."""
    said: dict[str, dict[str, None]] = {}
    for hit in hits:
        before = f'{hit.window.key}: "' if hit.window.key and hit.window.begins else ""
        text = before + hit.window.text
        for item in cast("Sequence[SpanFinding]", hit.found):
            found = evidence_of(item.type, text, item.start + len(before), item.end + len(before))
            if found is not None and found.weight > 0:
                said.setdefault(item.type, {}).update(dict.fromkeys(found.said))
    return {type: list(each) for type, each in said.items()}


def _numbering(ctx: AnyContext) -> Numbering:
    """Return the numbering of tokens for one call.

    It knows the tokens that stand in the conversation, in parts of any kind, and in the result of a tool. Answers of
    this run are left out: in a stream they are not complete yet, and its tokens must be the same.
    """
    own = {message.id for message in ctx.message_list.response}
    parts = (part for message in ctx.message_list.conversation if message.id not in own for part in message.parts)
    texts = chain.from_iterable(map(part_texts, parts))
    result: Value = getattr(ctx, "result", None) if ctx.stage == "process_tool_result" else None
    return Numbering(ctx.get(VAULT) or Vault(), (text for _, text in chain(texts, leaves(result))))


def check_methods(guard: str, given: object, types: Iterable[str]) -> Mapping[str, str]:
    """Return the redaction method of each type that has its own, and under ``*`` that of the others.

    Raises:
        OptionError: it is neither a method nor a mapping of types (``*`` for the others) to methods.
    """
    if not isinstance(given, Mapping):
        return {"*": one_of(guard, "redaction_method", cast("str", given), _METHODS)}
    table = cast("Mapping[str, str]", given)
    for name in table:
        one_of(guard, "redaction_method", name, ("*", *types))
    return {
        "*": "mask",
        **{name: one_of(guard, f"redaction_method[{name!r}]", how, _METHODS) for name, how in table.items()},
    }


def check_hash_key(guard: str, given: object) -> bytes:
    """Return the option as bytes; the key of the process if it is None.

    Raises:
        OptionError: it is neither bytes nor a text, or it is empty; the error does not quote it.
    """
    if given is None:
        return _PROCESS_KEY
    if not isinstance(given, (bytes, str)) or not given:
        raise OptionError(guard, "hash_key", type(given).__name__, "bytes or a text, not empty; or None")
    return given if isinstance(given, bytes) else given.encode()
