"""`Search` and `Action`: the components of a text guard, what it finds and what it does about that.

A `TextGuard` of your own may write `find`, `hold` and `act` instead. The built-in guards are made of components, so
that guards which find in the same way, or act in the same way, share the code. The third component is a
`GuardReporter`: it tells the record, the log and callbacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.engine.processor.stages import STAGES
from penstock.engine.values import edits as edit_ops

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence

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
    """What a guard finds. Write `scan`; `TextGuard` describes the methods under the same names."""

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

        On the way to the model these are the text parts of a message between two pictures, sounds or files: anything
        else between them may not be sent, or may be sent elsewhere, so that they are neighbours there. So are the text
        blocks of one list in a value, such as a tool's result. In answers they are neighbouring text parts, as in a
        stream: a subclass that groups more texts of an answer would judge the stream and the whole answer differently.
        Each other text is a group of its own.
        """
        return list(neighbours(texts)) if STAGES[ctx.stage].phase == "output" else by_message(texts, ctx)

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


# Which texts are searched as one


def neighbours(texts: Iterable[Text]) -> Iterator[list[Text]]:
    """Yield the text parts that follow one another in a message as one list; each other text in a list of its own."""
    run: list[Text] = []
    for text in texts:
        last = run[-1] if run else None
        if last is not None and not (
            last.kind == text.kind == "text"
            and not (last.fixed or text.fixed)
            and (last.place.message_id, last.place.part + 1) == (text.place.message_id, text.place.part)
        ):
            yield run
            run = []
        run.append(text)
    if run:
        yield run


_IN_PLACE = frozenset({"image", "audio", "file"})
"""The kinds of parts that formats send where they stand."""


def by_message(texts: Iterable[Text], ctx: AnyContext | None = None) -> list[list[Text]]:
    """Return the texts that a model reads as one as one list, where the first one stands; each other text in its own.

    These are the text parts of a message, and the text blocks of one list in a value. With a context, a picture, a
    sound or a file between two parts divides them.
    """
    listed = list(texts)
    blocks = {text.place._replace(path=text.place.path[:-1]) for text in listed if _says_block(text)}
    runs: list[list[Text]] = []
    said: dict[TextPlace | str, list[Text]] = {}
    messages: dict[str, Message] = {}
    for text in listed:
        key = _group_of(text, blocks)
        run = None if key is None else said.get(key)
        if run is not None and ctx is not None and run[-1].place.part + 1 < text.place.part:
            messages = messages or {entry.message.id: entry.message for entry in ctx.message_list.entries}
            between = messages[text.place.message_id].parts[run[-1].place.part + 1 : text.place.part]
            if any(part.type in _IN_PLACE for part in between):
                run = None
        if run is None:
            runs.append([text])
            if key is not None:
                said[key] = runs[-1]
        else:
            run.append(text)
    return runs


def _says_block(text: Text) -> bool:
    """Return whether a text says that it stands in a text block: ``{"type": "text", "text": …}`` in a list."""
    path = text.place.path
    return text.text == "text" and path[-1] == "type" and len(path) > 1 and isinstance(path[-2], int)


def _group_of(text: Text, blocks: Collection[TextPlace]) -> TextPlace | str | None:
    """Return what the texts that are read as one with this one have in common; None if it is read alone."""
    place = text.place
    if text.fixed:
        return None
    if text.kind == "text":
        return place.message_id
    if place.path[-1] == "text" and place._replace(path=place.path[:-1]) in blocks:
        return place._replace(path=place.path[:-2])  # the list
    return None
