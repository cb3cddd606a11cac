"""`MessageList`: the conversation of one run as an immutable value.

Every method that changes something returns a new list, which gets ids and times for new messages from the same sources.
Edits made with `edit_text` and `map_text` are kept in `known_edits`, so that merges of parallel steps and records have
the edits that were made, and need not guess them from the texts.
"""

from __future__ import annotations

from dataclasses import replace as _replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from penstock.engine.values import edits as edit_ops
from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.frozen import Value, is_mapping
from penstock.engine.values.list_views import Entry as Entry, ListViews, Source as Source  # noqa: PLC0414 - for others
from penstock.engine.values.messages import Message, TextPart, text_message
from penstock.engine.values.protocols import RANDOM_IDS, SYSTEM_CLOCK
from penstock.engine.values.texts import (
    NO_KNOWN_EDITS,
    NOTHING_EDITED,
    KnownEdits,
    Path,
    TextPlace,
    part_texts,
    text_at,
    with_part_texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.messages import Part, PartKind, Role
    from penstock.engine.values.protocols import Clock, Ids

TEXT_KINDS: frozenset[str] = frozenset({"text", "reasoning", "tool", "source", "file", "audio", "data", "unknown"})
"""The kinds of parts that hold texts which can be edited."""

Messages: TypeAlias = "str | Message | Iterable[Message]"


class ReturnCheck:
    """Marks the lists that a hook derives from the one it was given.

    By it a step knows a list of another call, and a hook that derived a list and forgot to return it.

    Attributes:
        derived: whether a list was derived.
    """

    __slots__ = ("derived",)

    def __init__(self) -> None:
        self.derived = False


_NO_VIEWS = ListViews(())

_NO_SUCH_MESSAGE = "the list has no message with that id; use add() for a new message"


class _Edited(NamedTuple):
    """The entries of a list whose texts a hook edited: those before, and the new texts. They are made when first read.

    Of hooks in parallel, only the edits are read, which are merged.
    """

    before: ListViews
    texts: dict[str, dict[int, dict[Path, str]]]

    def made(self) -> ListViews:
        """Return the entries with the texts."""
        entries = list(self.before.entries)
        places = self.before.places(self.texts)
        for place in places:
            message, source, tag = entries[place]
            parts = list(message.parts)
            for part, wanted in self.texts[message.id].items():
                parts[part] = with_part_texts(parts[part], wanted)
            entries[place] = Entry(message.with_parts(parts), source, tag)
        return self.before.changed(tuple(entries), places)


_REPEATED = (
    "the generator of ids returned {id!r}, which another message of the conversation has, and would replace that one; "
    "its next() must return a new id each time, in all runs whose messages come together, as RandomIds does"
)


class MessageList:
    """Messages in order, each with a source (input, memory, response, context, system). System messages may have a tag.

    Two lists are equal if they hold equal messages from equal sources in the same order.
    """

    __slots__ = ("_clock", "_held", "_ids", "known_edits", "return_check")

    known_edits: KnownEdits
    """The text edits made with `edit_text` and `map_text` since the list was handed to a hook."""

    return_check: ReturnCheck | None
    """The check of the hook that was given this list, or the one that it is derived from; None outside of hooks."""

    def __init__(
        self, messages: Messages = (), *, source: Source = "input", ids: Ids = RANDOM_IDS, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._held: ListViews | _Edited = _NO_VIEWS
        self._ids = ids
        self._clock = clock
        self.return_check = None
        self.known_edits = NO_KNOWN_EDITS
        if messages != ():
            self._held = self._added(as_messages(messages), source, None)

    @property
    def _views(self) -> ListViews:
        held = self._held
        if isinstance(held, _Edited):
            held = self._held = held.made()
        return held

    # Views

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every message with its source and tag, in order."""
        held = self._held  # asked for at each step: no further call where it is made
        return held.entries if type(held) is ListViews else self._views.entries

    @property
    def all(self) -> tuple[Message, ...]:
        """Every message except system messages, in order: the same as `conversation`. `entries` has system messages."""
        return self.conversation

    @property
    def conversation(self) -> tuple[Message, ...]:
        """Every message except system messages, in order."""
        return self._views.conversation

    @property
    def input(self) -> tuple[Message, ...]:
        """The messages that the caller sent, in order."""
        return self.of("input")

    @property
    def response(self) -> tuple[Message, ...]:
        """The messages from the model in this run, in order."""
        return self.of("response")

    @property
    def remembered(self) -> tuple[Message, ...]:
        """The messages that were loaded from memory, in order."""
        return self.of("memory")

    @property
    def system(self) -> tuple[Message, ...]:
        """The system messages: first those without a tag, then by tag, in the order of each tag's first message."""
        mine = self._views.system
        if not mine:
            return ()
        tags = dict.fromkeys([None, *[tag for _, _, tag in mine]])
        return tuple([message for tag in tags for message, _, owner in mine if owner == tag])

    def of(self, source: Source) -> tuple[Message, ...]:
        """Return the messages of one source, in order."""
        return self._views.of(source)

    def tagged(self, tag: str | None) -> tuple[Message, ...]:
        """Return the system messages of one owner; None for those without an owner."""
        return tuple([message for message, _, owner in self._views.system if owner == tag])

    def get(self, message_id: str) -> Message | None:
        """Return the message with that id, or None."""
        place = self._views.place(message_id)
        return None if place is None else self._views.entries[place][0]

    def texts(
        self, messages: Iterable[Message] | None = None, kinds: Iterable[str] = TEXT_KINDS
    ) -> Iterator[tuple[TextPlace, str]]:
        """Yield every text with its place.

        Args:
            messages: the messages to read; None for all of the list.
            kinds: the types of parts to read.
        """
        wanted = frozenset(kinds)
        chosen = [entry.message for entry in self.entries] if messages is None else messages
        for message in chosen:
            for index, part in enumerate(message.parts):
                if part.type in wanted:
                    for path, text in part_texts(part):
                        yield TextPlace(message.id, index, path), text

    # Changes

    def add(self, messages: Messages, *, source: Source | None = None, tag: str | None = None) -> MessageList:
        """Return the list with the messages added at its end. A message replaces an earlier one with the same id.

        Args:
            messages: a str (one user message), a message, or several.
            source: the source of messages other than system messages; None: ``input`` for user messages and
                ``response`` for others.
            tag: the owner of system messages. A message is dropped if its owner already has one with the same text.

        Raises:
            MessageError: the generator of ids gave a message the id of another.
        """
        return self.with_new(as_messages(messages), source, tag)

    def replace(self, *messages: Message) -> MessageList:
        """Return the list with each of the messages in place of the one with the same id.

        Raises:
            UsageError: the list has no message with one of the ids.
        """
        changed = {message.id: message for message in messages}
        views = self._views
        entries, places = list(views.entries), views.places(changed)
        if len(places) < len(changed):
            raise UsageError(_NO_SUCH_MESSAGE)
        for place in places:
            message, source, tag = entries[place]
            entries[place] = Entry(changed[message.id], source, tag)
        return self._derive(views.changed(tuple(entries), places))

    def remove(self, *ids: str) -> MessageList:
        """Return the list without the messages with those ids.

        Raises:
            UsageError: the list has no message with one of the ids.
        """
        gone = set(ids)
        if not all(map(self.__contains__, gone)):
            raise UsageError(_NO_SUCH_MESSAGE)
        return self._derive(ListViews(tuple(entry for entry in self.entries if entry.message.id not in gone)))

    def keep(self, places: Iterable[int]) -> MessageList:
        """Return the list with only the messages at those indexes of `entries`, in order.

        The time it takes depends on the number of messages that stay.

        Raises:
            IndexError: an index is beyond the end.
        """
        return self._derive(ListViews(tuple([self.entries[place] for place in sorted(set(places))])))

    def clear(self, source: Source | None = None) -> MessageList:
        """Return the list without messages, or without those of one source. Hooks use it to empty a list on purpose."""
        gone = {entry.message.id for entry in self.entries if source in (None, entry.source)}
        return self._derive(ListViews(tuple(entry for entry in self.entries if entry.message.id not in gone)))

    def replace_system(self, messages: Messages, *, tag: str | None = None) -> MessageList:
        """Return the list with these as the only system messages of one owner (``tag=None``: without an owner)."""
        kept = tuple(entry for entry in self.entries if not (entry.source == "system" and entry.tag == tag))
        bare = self._derive(ListViews(kept))
        fresh = [m if m.role == "system" else _replace(m, role="system") for m in as_messages(messages, "system")]
        return self._derive(bare._added(fresh, "system", tag))

    def edit_text(self, changes: Mapping[TextPlace, Iterable[Edit]]) -> MessageList:
        """Return the list with edited texts and nothing else changed.

        Args:
            changes: the edits for each text, by its place as `texts` yields it.

        Raises:
            UsageError: the list has no text at a place.
            EditError: edits overlap, or do not fit their text.
        """
        views = self._views
        earlier, complete = self.known_edits
        known = dict(earlier)
        after: dict[str, dict[int, dict[Path, str]]] = {}
        for place, edits in changes.items():
            message_id, part, path = place
            text = _text_at(self.get(message_id), part, path)
            fitting = edit_ops.normalise(edits, text)
            if fitting:
                after.setdefault(message_id, {}).setdefault(part, {})[path] = edit_ops.apply(text, fitting)
                known[place] = edit_ops.compose(earlier[place], fitting) if earlier and place in earlier else fitting
        edited = _Edited(views, after)
        made = edited if self.return_check is not None else edited.made()
        return self._derived(made, KnownEdits(known, complete))

    def map_text(
        self,
        change: Callable[[str], str],
        messages: Iterable[Message] | None = None,
        kinds: Iterable[PartKind] = ("text",),
    ) -> MessageList:
        """Return the list with texts changed by a function; ids and order stay.

        Args:
            change: is called with each text and returns the new one.
            messages: the messages to change; None for all of the list.
            kinds: the types of parts to change.
        """
        found: dict[TextPlace, Edits] = {}
        for place, text in self.texts(messages, kinds):
            edits = edit_ops.difference(text, change(text))
            if edits:
                found[place] = edits
        return self.edit_text(found) if found else self._derive(self._views)

    # For the engine

    @property
    def call_ids(self) -> frozenset[str]:
        """The ids of all calls to tools in the conversation."""
        return self._views.call_ids

    def for_hook(self, check: ReturnCheck) -> MessageList:
        """Return the same list for a hook: `known_edits` begin here, and lists derived from it bear the check."""
        return self._made(self._views, check, NOTHING_EDITED)

    def with_entries(self, entries: Sequence[Entry]) -> MessageList:
        """Return a list of those entries, without the check of a hook and without known edits."""
        views = self._views if entries is self.entries else ListViews(tuple(entries))
        return self._made(views, None, NO_KNOWN_EDITS)

    def completed(self, message: Message) -> Message:
        """Return the message with an id and a time; those that it has stay."""
        if message.id and message.created_at is not None:
            return message
        return message.with_origin(message.id or self._ids.next(), message.created_at or self._clock.now())

    def with_text(self, role: Role, text: str, source: Source) -> tuple[MessageList, Message]:
        """Return the list with a new message added, which has an id and a time; and the message.

        Raises:
            MessageError: the generator of ids gave it the id of another.
        """
        message = text_message(role, text, self._ids.next(), self._clock.now())
        if self.entries and self._views.place(message.id) is not None:
            raise MessageError("", _REPEATED.format(id=message.id))
        views = self._added((message,), source, None) if self.entries else ListViews((Entry(message, source),))
        return self._derive(views), message

    def with_new(self, messages: Iterable[Message], source: Source | None, tag: str | None = None) -> MessageList:
        """Return the list with messages added as by `add`, whose ids are known to differ from one another."""
        return self._derive(self._added(messages, source, tag))

    def _derive(self, views: ListViews) -> MessageList:
        """Return a list with other entries. Edits that no longer lead to its texts still say where text was hidden."""
        known = self.known_edits
        if views is not self._held:
            known = KnownEdits(known.texts, complete=False) if known.texts else NO_KNOWN_EDITS
        return self._derived(views, known)

    def _derived(self, held: ListViews | _Edited, known: KnownEdits) -> MessageList:
        if self.return_check is not None:
            self.return_check.derived = True
        return self._made(held, self.return_check, known)

    def _made(self, held: ListViews | _Edited, check: ReturnCheck | None, known_edits: KnownEdits) -> MessageList:
        made = object.__new__(MessageList)
        made._held = held
        made._ids = self._ids
        made._clock = self._clock
        made.return_check = check
        made.known_edits = known_edits
        return made

    def _added(self, messages: Iterable[Message], source: Source | None, tag: str | None) -> ListViews:
        views = self._views
        entries = list(views.entries)
        new: dict[str, int] = {}
        replaced: dict[int, bool] = {}  # by place: whether the new message has the source and the owner of the old one
        said: dict[tuple[str | None, str | tuple[Part, ...]], str] | None = None
        for given in messages:
            message = self.completed(given)
            entry = Entry(message, _source_of(message, source), tag if message.role == "system" else None)
            place = views.place(message.id) if views.entries else None
            if not given.id and (place is not None or message.id in new):
                raise MessageError("", _REPEATED.format(id=message.id))
            if place is not None:
                replaced[place] = views.entries[place][1:] == entry[1:]
                entries[place] = entry
                continue
            if message.id in new:
                entries[new[message.id]] = entry
                continue
            if entry[1] == "system":
                said = {(owner, _said(one)): one.id for one, _, owner in views.system} if said is None else said
                if said.setdefault((entry.tag, _said(message)), message.id) != message.id:
                    continue
            new[message.id] = len(entries)
            entries.append(entry)
        made = tuple(entries)
        return views.changed(made, list(replaced)) if all(replaced.values()) else ListViews(made)

    def __len__(self) -> int:
        """Return the number of messages, system messages included."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the messages, system messages included, in order."""
        return iter([entry.message for entry in self.entries])

    def __contains__(self, message_id: object) -> bool:
        """Return whether the list has a message with that id."""
        return isinstance(message_id, str) and self._views.place(message_id) is not None

    def __eq__(self, other: object) -> bool:
        """Return whether both hold equal messages from equal sources in the same order."""
        return isinstance(other, MessageList) and self.entries == other.entries

    def __getstate__(self) -> Value:
        """Return the pickled state: messages after their edits, never the texts before them."""
        _ = self.entries
        return object.__getstate__(self)

    def __hash__(self) -> int:
        """Hash by the messages' ids."""
        return hash(tuple(entry.message.id for entry in self.entries))

    def __repr__(self) -> str:
        """Show roles and ids, never text."""
        inside = ", ".join(f"{entry.source}:{entry.message.id}" for entry in self.entries)
        return f"MessageList({inside})"


def as_messages(messages: object, role: Literal["system", "user", "assistant"] = "user") -> tuple[Message, ...]:
    """Return messages from a str (one message of that role), a message, or several.

    Raises:
        MessageError: the value is something else, or two messages have one id.
    """
    if isinstance(messages, str):
        return (Message(role, messages),)  # type: ignore[arg-type]
    if isinstance(messages, Message):
        return (messages,)
    found = as_items(messages)
    ids: dict[str, int] = {}
    for index, message in enumerate(found):
        if isinstance(message, Message) and message.id and ids.setdefault(message.id, index) != index:
            raise MessageError(
                f"messages[{index}]", f"it has the same id as messages[{ids[message.id]}]; ids must be unique"
            )
        if not isinstance(message, Message):
            cure = "use penstock.parse_messages(...) for dicts" if is_mapping(message) else "expected a Message"
            raise MessageError(f"messages[{index}]", f"{cure}, not {type(message).__name__}")
    return found


def as_items(messages: Value) -> tuple[Value, ...]:
    """Return the items of an iterable of messages.

    Raises:
        MessageError: the value is not iterable.
    """
    try:
        return tuple(messages)
    except TypeError:
        raise MessageError("messages", f"expected a str or messages, not {type(messages).__name__}") from None


def _said(message: Message) -> str | tuple[Part, ...]:
    """Return what makes a system message the same as another: its text, or all of its parts if it has others.

    None of a client's messages is left out for another one, since guards are to see each of them: it is the same as
    itself.
    """
    if message.from_client:
        return message.id
    parts = message.parts
    return message.text if all(type(part) is TextPart for part in parts) else parts


def _source_of(message: Message, given: Source | None) -> Source:
    if message.role == "system":
        return "system"
    if given is None:
        return "input" if message.role == "user" else "response"
    return given


def _text_at(message: Message | None, part: int, path: Path) -> str:
    """Return a text of a message.

    Raises:
        UsageError: there is no message, or no text there.
    """
    if message is None:
        raise UsageError(_NO_SUCH_MESSAGE)
    if not 0 <= part < len(message.parts):
        raise UsageError(f"message {message.id!r} has no part {part}: it has {len(message.parts)}")
    text = text_at(message.parts[part], path)
    if text is None:
        raise UsageError(f"part {part} of message {message.id!r} has no text there: take places from texts()")
    return text
