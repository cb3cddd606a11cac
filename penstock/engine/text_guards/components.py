"""`Search` and `Action`: the components of a text guard, what it finds and what it does about that.

A `TextGuard` of your own may write `find`, `hold` and `act` instead. The built-in guards are made of components, so
that guards which find in the same way, or act in the same way, share the code. The third component is a
`GuardReporter`: it tells the record, the log and callbacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.processor.stages import STAGES
from penstock.engine.values import edits as edit_ops
from penstock.engine.values.texts import LEAST_NUMBER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.window import Found, Hit, Scanned, TextWindow
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import TextPlace


class Component:
    """A part of a guard. Two are equal if their classes and their attributes are, so that equal guards are equal."""

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same class and equal attributes."""
        return self is other or (type(self) is type(other) and vars(self) == vars(other))

    __hash__ = None  # type: ignore[assignment]


class Search(Component):
    """What a guard finds. Write `scan`; `TextGuard` describes the methods under the same names.

    Attributes:
        reads_thoughts_on: whether all reasoning of an answer is read as one. If not, it is up to the next part of
            another kind, as in a stream: for guards that judge joined texts in windows.
        reads_steps_on: whether a streamed text is also read behind what earlier steps said, if the guard does not read
            parts separately; other guards always do. An edit then begins in the new text, and its beginning counts as
            that of a sentence.
        reads_joined_on: whether texts that follow others are read together with them to the end, and not only until
            what stands before cannot matter any more: for guards that ask somebody about the joined text alone
            (`TextWindow.separate`).
        least_number: the smallest number in a JSON value whose digits are read, without its sign.
        reads_fixed: whether texts are read that cannot be edited, such as bodies of files, ids and metadata.
        reads_paths: whether findings depend on the path to a text, and not only on its kind and its key.
    """

    reads_thoughts_on: bool = True
    reads_steps_on: bool = False
    reads_joined_on: bool = False
    least_number: int = LEAST_NUMBER
    reads_paths: bool = True
    reads_fixed: bool = True

    def scan(self, window: TextWindow, ctx: AnyContext) -> Scanned | Awaitable[Scanned]:
        """Return the findings in a window, and the position from which text must be held back."""
        raise NotImplementedError

    def quiet(self, text: str, start: int, notes: Mapping[str, Value], *, final: bool) -> int | None:
        """Return the position from which text must be held back, if a glance shows that nothing was found; else None.

        The default returns None: every text is searched.
        """
        del text, start, notes, final
        return None

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return the texts in groups that are searched as one text.

        These are the texts that a reader joins: the text parts of a message, its parts of reasoning, and the text
        blocks of one list in a value, such as a tool's result. On the way to the model, pictures, sounds and files
        divide the parts of a message. A stream is read in the same way: a subclass that groups the texts of an answer
        otherwise judges the stream and the whole answer differently. Each other text is a group of its own.
        """
        if STAGES[ctx.stage].phase == "input":
            return by_message(texts, NothingInPlace(ctx))
        return by_message(texts, None if self.reads_thoughts_on else adjoins)

    # The last four are for guards that judge texts by themselves (`TextGuard.judges_alone`)

    def evidence(self, ctx: AnyContext) -> bytes | None:
        """Return a hash of all else that findings depend on, beside a text and its place; None: texts are always read.

        A text that was clean is clean as long as this stays the same. The default is empty: on nothing.
        """
        del ctx
        return b""

    def joins_beyond(self, text: Text) -> bool:
        """Return whether a text in a JSON value is read as one with texts outside of it; by default none is."""
        del text
        return False

    def left(self, notes: Mapping[str, Value], *, told: bool) -> tuple[object, ...] | None:
        """Return the scores and the like that a clean text leaves for later records; None: it is not clean.

        The default is that a text is clean if nothing was told about it.

        Args:
            notes: the notes of the text, as `scan` has left them.
            told: whether something was written to the record, to facts, or to the client while it was read.
        """
        del notes
        return None if told else ()

    def recall(self, ctx: AnyContext, left: Iterable[object]) -> None:
        """Report the scores and the like of clean texts that are not read again; by default nothing."""
        del ctx, left

    def overrides(self, within: Found, across: Found) -> bool:
        """Return whether a finding within a part replaces one across parts that it overlaps; by default True.

        If False, `Action.act` gets both.
        """
        del within, across
        return True

    def joined_only(self, found: Found) -> bool:
        """Return whether such a finding is searched for only in neighbouring text parts as one; by default False."""
        del found
        return False


class Action(Component):
    """What a guard does about its findings. By default the findings are edits, and are made."""

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits for each finding, with positions in its window; report, count and abort here."""
        del ctx
        return [edit_ops.unite_overlaps(cast("Sequence[Edit]", hit.found)) for hit in hits]

    def removes(self, ctx: AnyContext) -> bool:
        """Return whether `changed` removes the whole message of an edited text in this stage; by default False."""
        del ctx
        return False

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits applied; None if nothing changes.

        Called once in each stage that has messages, after all their texts are judged.
        """
        return ctx.message_list.edit_text(edits) if edits else None


NO_SEARCH = Search()
"""The search of a guard that writes `find`, or `scan`, itself."""
EDITS = Action()
"""The action of a guard whose findings are edits."""


# Which texts are searched as one: those that some reader joins. All text of an answer is one, whatever stands between
# its parts: chat completions and the hosts' own messages join it. So is its reasoning.

_CHANNELS = frozenset({"text", "reasoning", "tool"})


def by_message(texts: Iterable[Text], joins: Callable[[Text, Text], bool] | None = None) -> list[list[Text]]:
    """Return the text parts of a message, its parts of reasoning, and the text blocks of one list in a value, as lists.

    Args:
        texts: the texts, in order. Each other text is in a list of its own.
        joins: tells whether two texts that follow one another in such a list are joined; by default all are.
    """
    listed = list(texts)
    blocks = {
        text.place._replace(path=text.place.path[:-1]) for text in listed if text.text == "text" and _in_list(text)
    }
    runs: list[list[Text]] = []
    said: dict[object, list[Text]] = {}
    for text in listed:
        key = None if text.fixed or text.place.path[-1] != "text" else _group_of(text, blocks)  # most are no such text
        run = None if key is None else said.get(key)
        if run is not None and (joins is None or joins(run[-1], text)):
            run.append(text)
            continue
        runs.append([text])
        if key is not None:
            said[key] = runs[-1]
    return runs


def adjoins(before: Text, text: Text) -> bool:
    """Return whether reasoning directly follows other reasoning; True for text. For guards that judge it in windows."""
    return text.kind != "reasoning" or before.place.part + 1 == text.place.part


class NothingInPlace:
    """Tells whether no part that formats send where it stands is between two texts of a message."""

    _IN_PLACE = frozenset({"image", "audio", "file"})

    def __init__(self, ctx: AnyContext) -> None:
        self._ctx = ctx
        self._messages: dict[str, Message] = {}

    def __call__(self, before: Text, text: Text) -> bool:
        low, high = before.place.part + 1, text.place.part
        if low >= high:
            return True
        self._messages = self._messages or {entry.message.id: entry.message for entry in self._ctx.message_list.entries}
        between = self._messages[text.place.message_id].parts[low:high]
        return not any(part.type in self._IN_PLACE for part in between)


def _in_list(text: Text) -> bool:
    """Return whether *text* says that it stands in a text block: ``{"type": "text", "text": …}`` in a list."""
    path = text.place.path
    return path[-1] == "type" and len(path) > 1 and isinstance(path[-2], int)


def _group_of(text: Text, blocks: Collection[TextPlace]) -> object:
    """Return what the texts that are read as one with this one have in common; None if it is read alone.

    It can be edited, and stands under the key ``text``.
    """
    place = text.place
    if text.kind in _CHANNELS and place.path == ("text",):
        return place.message_id, text.kind
    if place._replace(path=place.path[:-1]) in blocks:
        return place._replace(path=place.path[:-2])  # the list
    return None
