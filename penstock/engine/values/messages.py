"""Messages and their parts, as immutable values.

All are frozen dataclasses, compared by value. They hold tuples and read-only mappings, so that parallel steps can share
them. ``metadata`` of a part holds what a wire format has beyond the fields here. ``texts`` names the fields of a part
that hold text for guards to read and edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypedDict, get_args

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, Value, Values, freeze, json_value

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Unpack

Role = Literal["system", "user", "assistant", "tool"]
ToolState = Literal["partial", "call", "result", "error"]
ApprovalState = Literal["requested", "approved", "rejected"]

ROLES: tuple[str, ...] = get_args(Role)
TOOL_STATES: tuple[str, ...] = get_args(ToolState)
APPROVAL_STATES: tuple[str | None, ...] = (*get_args(ApprovalState), None)


def _freeze_fields(value: object, *names: str) -> None:
    """Freeze the named fields of a frozen dataclass, in its ``__post_init__``."""
    for name in names:
        item = getattr(value, name)
        if type(item) is not FrozenDict and item is not None:
            object.__setattr__(value, name, freeze(item))


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        raise MessageError("", f"a text part needs a str, not {type(text).__name__}")


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text."""

    texts: ClassVar[tuple[str, ...]] = ("text",)
    text: str
    metadata: Values = EMPTY
    type: Literal["text"] = field(default="text", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata; refuse a text that is not a str."""
        if type(self.text) is not str:
            _require_text(self.text)
        if type(self.metadata) is not FrozenDict:
            _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """Reasoning that the model wrote before its answer."""

    texts: ClassVar[tuple[str, ...]] = ("text",)
    text: str
    metadata: Values = EMPTY
    type: Literal["reasoning"] = field(default="reasoning", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture: a URL (``https:`` or ``data:``), or base64 data with its media type."""

    texts: ClassVar[tuple[str, ...]] = ()
    url: str | None = None
    data: str | None = field(default=None, repr=False)
    media_type: str | None = None
    metadata: Values = EMPTY
    type: Literal["image"] = field(default="image", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class AudioPart:
    """Sound: base64 data or a URL, with its media type; ``transcript`` is its text, if known."""

    texts: ClassVar[tuple[str, ...]] = ("transcript",)
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    media_type: str | None = None
    transcript: str | None = None
    metadata: Values = EMPTY
    type: Literal["audio"] = field(default="audio", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file: base64 data, a URL or a provider's file id, with its media type. Guards can read and edit its name."""

    texts: ClassVar[tuple[str, ...]] = ("name",)
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    file_id: str | None = None
    media_type: str | None = None
    name: str | None = None
    metadata: Values = EMPTY
    type: Literal["file"] = field(default="file", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A tool call and, once the tool has run, its result.

    ``state`` tells how far the call is: ``partial`` (arguments are still streaming), ``call``, ``result`` or ``error``.
    ``arguments`` and ``result`` are frozen JSON values. All strings in them, keys included, count as text. ``approval``
    tells whether a person was asked about the call (``requested``) and has decided (``approved``, ``rejected``); an
    `Agent` then runs or refuses it. The reason for a refusal is the ``error``.
    """

    texts: ClassVar[tuple[str, ...]] = ("arguments", "result", "error")
    call_id: str
    name: str
    arguments: Value = EMPTY
    state: ToolState = "call"
    result: Value = None
    error: str | None = None
    metadata: Values = EMPTY
    approval: ApprovalState | None = field(default=None, repr=False)
    type: Literal["tool"] = field(default="tool", repr=False)

    def __post_init__(self) -> None:
        """Freeze the JSON values; refuse values that JSON does not have, and an unknown state."""
        if self.state not in TOOL_STATES:
            raise MessageError("", f"a tool part's state must be one of {', '.join(TOOL_STATES)}, not {self.state!r}")
        if self.approval not in APPROVAL_STATES:
            known = ", ".join(map(str, APPROVAL_STATES))
            raise MessageError("", f"a tool part's approval must be one of {known}, not {self.approval!r}")
        for name in ("arguments", "result"):
            object.__setattr__(self, name, json_value(getattr(self, name), name))
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A source that an answer cites."""

    texts: ClassVar[tuple[str, ...]] = ("title", "url")
    id: str | None = None
    url: str | None = None
    title: str | None = None
    metadata: Values = EMPTY
    type: Literal["source"] = field(default="source", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class DataPart:
    """Data of an application, under a name (``data-<name>`` on the wire)."""

    texts: ClassVar[tuple[str, ...]] = ("data",)
    name: str
    data: Value = None
    metadata: Values = EMPTY
    type: Literal["data"] = field(default="data", repr=False)

    def __post_init__(self) -> None:
        """Freeze the data."""
        _freeze_fields(self, "data", "metadata")


@dataclass(frozen=True, slots=True)
class StepStartPart:
    """Marks where another model step of the same run begins."""

    texts: ClassVar[tuple[str, ...]] = ()
    metadata: Values = EMPTY
    type: Literal["step-start"] = field(default="step-start", repr=False)

    def __post_init__(self) -> None:
        """Freeze the metadata."""
        _freeze_fields(self, "metadata")


@dataclass(frozen=True, slots=True)
class UnknownPart:
    """A part of a type that Penstock does not know, as it was received. All strings in it, keys included, are text."""

    texts: ClassVar[tuple[str, ...]] = ("raw",)
    raw: Value
    metadata: Values = EMPTY
    type: Literal["unknown"] = field(default="unknown", repr=False)

    def __post_init__(self) -> None:
        """Freeze the raw value."""
        _freeze_fields(self, "raw", "metadata")


Part = (
    TextPart
    | ReasoningPart
    | ImagePart
    | AudioPart
    | FilePart
    | ToolPart
    | SourcePart
    | DataPart
    | StepStartPart
    | UnknownPart
)
"""Any part of a message."""

PART_TYPES: tuple[type[Part], ...] = get_args(Part)
PartKind = Literal["text", "reasoning", "image", "audio", "file", "tool", "source", "data", "step-start", "unknown"]


def _as_parts(parts: str | Iterable[Part]) -> tuple[Part, ...]:
    return (TextPart(parts),) if isinstance(parts, str) else tuple(parts)


if TYPE_CHECKING:

    class MessageFields(TypedDict, total=False):
        """The optional fields of a `Message`."""

        id: str
        created_at: datetime | None
        thread_id: str | None
        resource_id: str | None
        metadata: Values
        name: str | None
        from_client: bool


class _Slots:
    """The slots of a message, so that its two classes have the same layout."""

    __slots__ = (
        "__weakref__",
        "created_at",
        "from_client",
        "id",
        "metadata",
        "name",
        "parts",
        "resource_id",
        "role",
        "thread_id",
    )


class _UnfrozenMessage(_Slots):
    """A message while its attributes are set, at a third of the cost of a frozen one. It becomes a `Message`."""

    __slots__ = ()

    role: Role
    parts: tuple[Part, ...]
    id: str
    created_at: datetime | None
    thread_id: str | None
    resource_id: str | None
    metadata: Values
    name: str | None
    from_client: bool


def _check_parts(parts: tuple[Part, ...]) -> None:
    for index, part in enumerate(parts):
        if type(part) not in PART_TYPES:
            raise MessageError(f"parts[{index}]", f"expected a part such as TextPart, not {type(part).__name__}")


@dataclass(frozen=True, slots=True)
class Message(_Slots):
    """One message of a conversation.

    ``id`` and ``created_at`` may be left out: the `MessageList` to which the message is added sets both. ``parts`` may
    be given as a str, which becomes one text part.

    ``name`` is who speaks, for models that tell several speakers of one role apart. ``from_client`` says that the
    message was parsed from data of a client (`parse_messages`), so that guards check it whatever its role. Messages
    that are made in code are the application's own.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    id: str = ""
    created_at: datetime | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    metadata: Values = EMPTY
    name: str | None = None
    from_client: bool = False

    def __post_init__(self) -> None:
        """Check role and parts, and freeze the contents."""
        if self.role not in ROLES:
            raise MessageError("", f"role must be one of {', '.join(ROLES)}, not {self.role!r}")
        parts = self.parts
        if type(parts) is not tuple:
            parts = _as_parts(parts)
            object.__setattr__(self, "parts", parts)
        _check_parts(parts)
        if type(self.metadata) is not FrozenDict:
            object.__setattr__(self, "metadata", freeze(self.metadata))

    @classmethod
    def user(cls, parts: str | Iterable[Part], **fields: Unpack[MessageFields]) -> Message:
        """Return a user message. ``fields`` are further fields of `Message`."""
        return cls("user", parts, **fields)  # type: ignore[arg-type]

    @classmethod
    def assistant(cls, parts: str | Iterable[Part], **fields: Unpack[MessageFields]) -> Message:
        """Return an assistant message. ``fields`` are further fields of `Message`."""
        return cls("assistant", parts, **fields)  # type: ignore[arg-type]

    @classmethod
    def system(cls, parts: str | Iterable[Part], **fields: Unpack[MessageFields]) -> Message:
        """Return a system message. ``fields`` are further fields of `Message`."""
        return cls("system", parts, **fields)  # type: ignore[arg-type]

    @classmethod
    def tool(cls, parts: str | Iterable[Part], **fields: Unpack[MessageFields]) -> Message:
        """Return a tool message. ``fields`` are further fields of `Message`."""
        return cls("tool", parts, **fields)  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """The text parts, joined by newlines; other parts are left out."""
        parts = self.parts
        if len(parts) == 1:
            only = parts[0]
            return only.text if type(only) is TextPart else ""
        return "\n".join(part.text for part in parts if type(part) is TextPart)

    def with_parts(self, parts: Iterable[Part]) -> Message:
        """Return the message with other parts and the same other fields."""
        made = tuple(parts)
        _check_parts(made)
        return _copy(self, made, self.id, self.created_at, from_client=self.from_client)

    def as_from_client(self) -> Message:
        """Return the message with ``from_client`` set."""
        return self if self.from_client else _copy(self, self.parts, self.id, self.created_at, from_client=True)

    def with_origin(self, id: str, created_at: datetime | None) -> Message:
        """Return the message with another id and time."""
        return _copy(self, self.parts, id, created_at, from_client=self.from_client)

    def with_metadata(self, **items: Value) -> Message:
        """Return the message with the items added to its metadata; an item replaces one of the same key."""
        return replace(self, metadata={**self.metadata, **items})


def _copy(
    message: Message, parts: tuple[Part, ...], id: str, created_at: datetime | None, *, from_client: bool
) -> Message:
    """Return a message with other fields, which are not checked again."""
    made = _UnfrozenMessage()
    made.role = message.role
    made.parts = parts
    made.id = id
    made.created_at = created_at
    made.thread_id = message.thread_id
    made.resource_id = message.resource_id
    made.metadata = message.metadata
    made.name = message.name
    made.from_client = from_client
    made.__class__ = Message  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    return made  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


_BARE: dict[Role, Message] = {role: Message(role) for role in get_args(Role)}


def text_message(role: Role, text: str, id: str = "", created_at: datetime | None = None) -> Message:
    """Return a message of one text."""
    return _copy(_BARE[role], (TextPart(text),), id, created_at, from_client=False)
