"""What guards read: every string of a message, a part or a JSON value, and the bodies that no guard can read.

A `Text` can be edited, or it is *fixed*: an id, an address, a media type, a name, metadata, or a body that was decoded.
A fixed text is read like any other, but nothing in it can be replaced, so a guard that finds something there must stop
the run. The digits of a number in a value are fixed, too, except that the whole number can be replaced. A body that is
no text (a picture, a sound) is an `Unread`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, urlsafe_b64decode
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import unquote_to_bytes

from penstock.engine.text_guards.documents import document_text
from penstock.engine.text_guards.views import view_of_value
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.messages import AudioPart, DataPart, FilePart, ImagePart, SourcePart, TextPart, ToolPart
from penstock.engine.values.terms import is_address
from penstock.engine.values.texts import LEAST_NUMBER, KeyText, TextPlace, leaves, numbers
from penstock.lazy import by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from penstock.engine.values.frozen import Layer, Value
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.texts import Path

    Knows = Callable[["Layer", TextPlace], bool]


OF_MESSAGE = "message"
"""The kind of the texts that belong to a message itself: its name, its ids, its metadata."""

OUTSIDE = -1
"""The index that stands for a part in the places of such texts."""

ORIGINAL = ("metadata", "language_detection", "original_content")
"""Where `LanguageDetector` keeps the original of a translation: a guard that would edit it drops it."""

_BODY = "data"
"""The key of a body that was decoded: it is no address, even if it stood in one."""


class Text(NamedTuple):
    """One text with its place.

    Attributes:
        place: where it is.
        text: the text.
        kind: the kind of its part.
        key: the key under which it stands in a value, or the name of its field if it is fixed; otherwise empty.
        fixed: whether it can only be read, and not be edited.
        number: whether it is the digits of a number that can be replaced as a whole; it is fixed, too.
    """

    place: TextPlace
    text: str
    kind: str
    key: str = ""
    fixed: bool = False
    number: bool = False


class Unread(NamedTuple):
    """A body that cannot be read: where it stands, and the kind of its part."""

    message_id: str
    part: int
    kind: str


# Messages


def message_texts(
    message: Message, kinds: Collection[str], least: int = LEAST_NUMBER, knows: Knows | None = None
) -> list[Text]:
    """Return the texts of a message: of its parts of those kinds, then the fixed ones of these parts, then its own.

    Neighbouring text parts are then neighbours here, too, whatever their metadata hold. All parts of a tool's message
    are of the kind ``tool``.

    Args:
        message: the message.
        kinds: the kinds of parts.
        least: the smallest number in a value that is read, without its sign.
        knows: tells of a value in a part, and of its place, whether its texts are left out; by default none are.
    """
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart and not parts[0].metadata:  # by far the most
        kind = _kind_of(parts[0], message)
        texts = [Text(TextPlace(message.id, 0), parts[0].text, kind)] if kind in kinds else []
    else:
        texts = list(_parts_texts(message, kinds, least, knows))
    if message.name is not None or message.metadata or message.from_client:
        texts.extend(_own_texts(message))
    return texts


def _parts_texts(message: Message, kinds: Collection[str], least: int, knows: Knows | None) -> Iterator[Text]:
    placed = [(part, TextPlace(message.id, index)) for index, part in enumerate(message.parts)]
    parts = [(part, where) for part, where in placed if _kind_of(part, message) in kinds]
    found = (text for part, where in parts for text in part_texts(part, where, least, knows))
    fixed = (text for part, where in parts for text in _fixed_part_texts(part, where))
    for text in chain(found, fixed):
        yield text._replace(kind="tool") if message.role == "tool" else text


def _kind_of(part: Part, message: Message) -> str:
    """Return the kind that a part is read as: a tool's message has nothing that a user wrote."""
    return "tool" if message.role == "tool" else part.type


def unread_bodies(message: Message, kinds: Collection[str]) -> list[Unread]:
    """Return the parts of a message, of those kinds, with a body that cannot be read."""
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart:  # by far the most
        return []
    return [
        Unread(message.id, index, kind)
        for index, part in enumerate(parts)
        if part.type != "text" and (kind := _kind_of(part, message)) in kinds and _is_unread(part)
    ]


_IDS = ("id", "thread_id", "resource_id")


def _own_texts(message: Message) -> Iterator[Text]:
    """Yield the texts that belong to no part. Ids are read if they came from a client."""
    where = TextPlace(message.id, OUTSIDE)
    if message.name:
        yield _fixed(where, "name", message.name, OF_MESSAGE)
    for field in _IDS if message.from_client else ():
        text: str | None = getattr(message, field)
        if text and not is_minted(text):
            yield _fixed(where, field, text, OF_MESSAGE)
    for found in fixed_texts(message.metadata, ("metadata",), where, OF_MESSAGE):
        yield found._replace(fixed=found.place.path != ORIGINAL)


_MINTED = re.compile(r"(?=.*[a-f])(?:[0-9a-f]{24}|[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""What ids that nobody wrote look like: 24 or 32 hexadecimal digits, or a UUID."""


def is_minted(text: str) -> bool:
    """Return whether a text is an id that nobody wrote. Digits that spell words are no such id."""
    if _MINTED.fullmatch(text) is None:
        return False
    spelled = bytes.fromhex(text.replace("-", ""))
    return not (spelled.isascii() and spelled.decode("ascii").isprintable())


# Parts

_FIXED_FIELDS: Mapping[type[Part], tuple[str, ...]] = {
    ImagePart: ("url", "media_type"),
    AudioPart: ("url", "media_type"),
    FilePart: ("url", "file_id", "media_type"),
    ToolPart: ("call_id", "name"),
    SourcePart: ("id",),
    DataPart: ("name",),
}


def part_texts(part: Part, where: TextPlace, least: int = LEAST_NUMBER, knows: Knows | None = None) -> Iterator[Text]:
    """Yield the texts of a part's content; the arguments are those of `message_texts`."""
    kind = part.type
    for name in part.texts:
        value = getattr(part, name)
        if kind in VALUES and value is not None:
            if knows is None or not knows(value, where._replace(path=(name,))):
                yield from value_texts(value, (name,), where, kind, least=least)
        elif isinstance(value, str):
            yield Text(where._replace(path=(name,)), value, kind)


def _fixed_part_texts(part: Part, where: TextPlace) -> Iterator[Text]:
    kind = part.type
    if kind == "text" and not part.metadata:
        return
    for name in _FIXED_FIELDS.get(type(part), ()):
        text: str | None = getattr(part, name)
        if text and not (name == "url" and _is_data_url(text)) and not is_minted(text):
            yield _fixed(where, name, text, kind)
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        for name, body in _bodies(part):
            if body.text:
                yield _fixed(where, name, body.text, kind)._replace(key=_BODY)
            if body.head:
                yield _fixed(where, "media_type", body.head, kind)
    yield from fixed_texts(part.metadata, ("metadata",), where, kind)


def _fixed(where: TextPlace, field: str, text: str, kind: str) -> Text:
    return Text(where._replace(path=(field,)), text, kind, field, fixed=True)


def _is_unread(part: Part) -> bool:
    if isinstance(part, (ImagePart, AudioPart, FilePart)):
        remote = part.url is not None and not _is_data_url(part.url)
        return remote or getattr(part, "file_id", None) is not None or any(not body.known for _, body in _bodies(part))
    return part.type in VALUES and any(holds_unread(getattr(part, name)) for name in part.texts)


VALUES = frozenset({"tool", "data", "unknown"})
"""The kinds of parts that hold JSON values."""


def _bodies(part: ImagePart | AudioPart | FilePart) -> Iterator[tuple[str, _Body]]:
    if part.data is not None:
        yield "data", _body(part.data, part.media_type)
    if part.url is not None and _is_data_url(part.url):
        yield "url", _linked_body(part.url, part.media_type)


# JSON values


def value_texts(
    value: Layer, path: Path, where: TextPlace, kind: str = "tool", *, least: int = LEAST_NUMBER, root: int = 1
) -> Iterator[Text]:
    """Yield the strings of a value, keys and numbers included, each with the key that it stands under.

    Args:
        value: the value.
        path: the path to it.
        where: the place of the part or the stage that it belongs to.
        kind: the kind of that part.
        least: the smallest number that is read, without its sign.
        root: how many steps of paths name the value itself, so that texts do not stand under them as keys.
    """
    message_id, part, _ = where
    may_be_sealed = kind == "unknown"
    for found, text in leaves(value, path):
        place = TextPlace(message_id, part, found)  # at a third of the cost of `_replace`
        yield Text(place, text, kind, _key_of(found, root), may_be_sealed and _is_sealed(text))
    for found, digits in numbers(value, path, least):
        place = TextPlace(message_id, part, found)
        yield Text(place, digits, kind, _key_of(found, root), fixed=True, number=True)
    for found, said in _unedited(value, path):
        key = _key_of(found, root)
        is_body = _ID_KEY.search(key) is not None and not said.isdigit()
        yield Text(TextPlace(message_id, part, found), said, kind, _BODY if is_body else key, fixed=True)


def fixed_texts(value: Value, path: Path, where: TextPlace, kind: str) -> Iterator[Text]:
    """Yield the texts of a value that cannot be edited.

    Left out are the words that formats use for their notes, and the address of a provider.
    """
    for text in value_texts(value, path, where, kind):
        is_term = text.key == "provider_url" and is_address(text.text)
        if text.text and text.text not in _note_words() and not is_minted(text.text) and not is_term:
            yield text._replace(fixed=True, number=False)


@cache
def _note_words() -> frozenset[str]:
    """Return the words that formats write into metadata by themselves. They carry nothing, whoever wrote them."""
    words: Callable[[], frozenset[str]] = by_name("penstock.formats.shape", "note_words")
    return words()


def _key_of(path: Path, root: int) -> str:
    """Return the key that the value at a path stands under; empty for a key itself."""
    if isinstance(path[-1], KeyText):
        return ""
    at = len(path) - 1
    while at >= root:
        step: object = path[at]
        if isinstance(step, str):
            return step
        at -= 1
    return ""


def _unedited(value: Value, path: Path) -> list[tuple[Path, str]]:
    """Return texts that can be read but not edited: odd keys and values, and bodies with text."""
    found: list[tuple[Path, str]] = []
    _add_unedited(value, path, found)
    return found


def _add_unedited(value: Value, path: Path, found: list[tuple[Path, str]]) -> None:
    if is_mapping(value):
        for key, item in value.items():
            if not isinstance(key, str):
                found.append(((*path, key), _read(key)))
            if not _is_simple(item):
                _add_unedited(item, (*path, key), found)
        found.extend(((*path, key), body.text) for key, body in _bodies_in(value) if body.text)
    elif is_items(value):
        for index, item in enumerate(value):
            if not _is_simple(item):
                _add_unedited(item, (*path, index), found)
    else:
        said = _said(value)
        if said:
            found.append((path, said))


def _is_simple(value: object) -> bool:
    """Return whether a value is a text, a number or the like, and no body: there is nothing to read within it."""
    kind = type(value)
    return kind in _SIMPLE or (kind is str and _DATA_URL.match(cast("str", value)) is None)


_SIMPLE = frozenset({int, float, bool, type(None)})


def _said(value: object) -> str:
    """Return the text of a value that is not a str; an empty text if it has none."""
    if isinstance(value, str):
        return (_linked_body(value, None).text or "") if _DATA_URL.match(value) is not None else ""
    return "" if value is None or isinstance(value, (int, float)) else _read(value)


def _read(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def holds_unread(value: Value) -> bool:
    """Return whether a JSON value holds a body that cannot be read."""
    return not _is_simple(value) and view_of_value(value, _holds_unread)  # each guard of a stage asks


def _holds_unread(value: Value) -> bool:
    waiting: list[Value] = [value]
    while waiting:
        item = waiting.pop()
        if is_mapping(item):
            if any(not body.known for _, body in _bodies_in(item)):
                return True
            waiting.extend(inner for inner in item.values() if not _is_simple(inner))
        elif is_items(item):
            waiting.extend(inner for inner in item if not _is_simple(inner))
        elif isinstance(item, str) and _DATA_URL.match(item) is not None and not _linked_body(item, None).known:
            return True
    return False


_TYPE_KEYS = ("media_type", "mediaType", "mimeType", "mime_type")
_OF_BODIES = frozenset({*_TYPE_KEYS, "blob", "data"})
"""Keys of which an object has one if it has a body."""


def _bodies_in(value: dict[Value, Value]) -> Iterator[tuple[str, _Body]]:
    """Yield the bodies that stand in an object, by key: beside their media type, or where a format has its bodies.

    Beside a media type, a body stands under a key that says so, or decodes to that type. Others are ids and hashes.
    """
    if _OF_BODIES.isdisjoint(value):  # as most objects
        return
    named: str | None = next((value[key] for key in _TYPE_KEYS if isinstance(value.get(key), str)), None)
    keys = _usual_keys(value) if named is None else [key for key in value if key not in _TYPE_KEYS]
    for key in keys:
        item = value[key]
        if isinstance(item, str) and _is_base64(item):
            body = _body(item, named)
            if named is None or _BODY_KEY.search(str(key)) or _has_type(item, named, body):
                yield key, body


_BODY_KEY = re.compile(
    r"(?:^|[_.-]|(?<=[a-z0-9])(?=[A-Z]))(?:data|blob|contents?|base64|b64|body|bytes|binary|payload|raw|encoded|value"
    r"|images?|audio|video|media|files?|pictures?|photo|thumbnail|attachments?|documents?|src|source|json|text)$",
    re.IGNORECASE,
)
"""Keys whose last word says that a body stands there, such as ``data``, ``b64_json`` and ``fileContent``."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "image/"),
    (b"\xff\xd8\xff", "image/"),
    (b"GIF8", "image/"),
    (b"BM", "image/"),
    (b"II*\0", "image/"),
    (b"MM\0*", "image/"),
    (b"RIFF", ""),
    (b"%PDF", ""),
    (b"PK\x03\x04", ""),
    (b"PK\x05\x06", ""),
    (b"\x1f\x8b", ""),
    (b"\xd0\xcf\x11\xe0", ""),
    (b"OggS", ""),
    (b"ID3", ""),
    (b"fLaC", ""),
    (b"\x1a\x45\xdf\xa3", ""),
)
"""The first bytes of bodies, and the beginning of the media types that have them."""
_HEAD_SIZE = 24  # characters of base64, enough for the first bytes


def _has_type(written: str, named: str, body: _Body) -> bool:
    """Return whether a body decodes to its media type: to text that is read whole, or to bytes with its beginning."""
    if _TEXTUAL.match(named):
        return body.known and body.text is not None
    packed = _SPACE.sub("", written)[:_HEAD_SIZE].replace("-", "+").replace("_", "/").rstrip("=")
    try:
        head = b64decode(packed[: len(packed) // 4 * 4])
    except ValueError:
        return False
    return head[4:8] == b"ftyp" or any(head.startswith(magic) and named.startswith(kind) for magic, kind in _MAGIC)


def _usual_keys(value: Mapping[str, object]) -> Iterator[str]:
    """Yield the keys of bodies whose media type may be left out: resources and media of MCP."""
    if "blob" in value and "uri" in value:
        yield "blob"
    if "data" in value and value.get("type") in ("image", "audio"):
        yield "data"


# Bodies


class _Body(NamedTuple):
    """A body.

    Attributes:
        known: whether it can be read: it is text, or empty.
        text: the text; None if there is none to read beside what stands in the message.
        head: the part of a ``data:`` address before the body.
    """

    known: bool
    text: str | None = None
    head: str = ""


_LEAST_BASE64 = 16  # characters: shorter ones are words
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)
_SPACE = re.compile(r"\s+")
_DATA_URL = re.compile(r"data:[^,\s]*,", re.IGNORECASE)
_TEXTUAL = re.compile(
    r"text/|[^;]*[/+](?:json|xml|csv|yaml|x-yaml|toml|sql|javascript|ecmascript|typescript|x-sh|graphql|rtf|ndjson"
    r"|jsonl|x-ndjson|x-python|markdown|html|xhtml|x-www-form-urlencoded|x-subrip|x-tex|tex|x-latex|message/rfc822)\b",
    re.IGNORECASE,
)


def _is_data_url(url: str) -> bool:
    return url[:5].lower() == "data:"


def _is_base64(text: str) -> bool:
    return len(text) >= _LEAST_BASE64 and _BASE64.fullmatch(_SPACE.sub("", text)) is not None


def _linked_body(url: str, media_type: str | None) -> _Body:
    """Return the body of a ``data:`` address. Its text is read if the address or the part says that it is text."""
    head, _, written = url[5:].partition(",")
    named = f"{head};{media_type or ''}"
    if head.lower().endswith(";base64"):
        return _body(written, named)._replace(head=head)
    return _decoded(unquote_to_bytes(written), named)._replace(head=head)


def _body(written: str, media_type: str | None) -> _Body:
    packed = _SPACE.sub("", written).replace("+", "-").replace("/", "_").rstrip("=")
    try:
        raw = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)) if _is_plain(packed) else None
    except (binascii.Error, ValueError):
        raw = None
    if raw is None:
        return _Body(known=False, text=written)
    made = _decoded(raw, media_type)
    # words between spaces are no base64, though they could be read as such
    return made._replace(text=written) if made.text is None and " " in written.strip() else made


def _is_plain(packed: str) -> bool:
    return not packed or _BASE64.fullmatch(packed) is not None


def _decoded(raw: bytes, media_type: str | None) -> _Body:
    if not raw:
        return _Body(known=True)
    types = [named for named in (media_type or "").split(";") if "/" in named]
    if types and not any(_TEXTUAL.match(named) for named in types):
        return _Body(known=False)
    text, known = document_text(raw, media_type or "")
    if text is None:
        return _Body(known=False, text=raw.decode("latin-1") if types else None)
    return _Body(known=known, text=text)


# What only machines read


def _is_sealed(text: str) -> bool:
    """Return whether a text is one long random token, such as a signature: edited, it would be worth nothing."""
    return len(text) >= _LEAST_SEALED and _BASE64.fullmatch(text) is not None and not text.isalpha()


_LEAST_SEALED = 64  # characters
_ID_KEY = re.compile(
    r"(?:^|_)(?:id|ids|url|uri|signature|href|hash|fingerprint)$|(?:[a-z](?:Id|Ids|Url|Uri|Signature))$"
)


def is_random(text: str, key: str) -> bool:
    """Return whether random characters are usual in a fixed text: an id, an address, or something sealed."""
    return _ID_KEY.search(key) is not None or _is_sealed(text)


_URL_HEAD = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*")
_BREAKS = re.compile(r"[\x00-/:-@\[-`{-\x7f]+|(?<=[a-z])(?=[A-Z])")  # signs of ASCII, or a capital within a word
_FEWEST_WORDS = 4
_SHORTEST_WORD = 3  # letters


def has_words(text: str) -> bool:
    """Return whether a fixed text could say something: it has spaces, or four words and more joined in some way.

    Others are ids, addresses and terms, which tell nothing to a guard that judges what is said.
    """
    if any(map(str.isspace, text)):
        return True
    words = {word for word in _BREAKS.split(_URL_HEAD.sub("", text)) if len(word) >= _SHORTEST_WORD and word.isalpha()}
    return len(words) >= _FEWEST_WORDS


def distinct(texts: Iterable[Text]) -> list[Text]:
    """Return the texts, each fixed one once: ids and names stand in many places."""
    made: list[Text] = []
    known: set[tuple[str, str]] = set()
    for text in texts:
        if text.fixed and not text.number:  # a number can be edited, in each place
            same = (text.text, text.key)
            if same in known:
                continue
            known.add(same)
        made.append(text)
    return made
