"""Which texts are searched as one: text parts that are neighbours in an answer, or that a model reads together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import TextPlace


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
