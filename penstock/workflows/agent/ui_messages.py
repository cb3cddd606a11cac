"""`UIAnswer`: the answer of a request as a user interface shows it, in the AI SDK's UI messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.messages import Message, StepStartPart
from penstock.formats import FORMATS, dump_messages

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part


class UIAnswer:
    """Collects the chunks that the client got.

    The parts of the messages are made of these only, so text that a guard or another hook has kept from the client is
    not in them either.
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: list[list[Chunk]] = []

    def add(self, chunk: Chunk) -> None:
        """Add a chunk that leaves. A rejected step is removed again, and so is a retracted text of the last step.

        Ids of texts are unique within a step only: a provider may give each of its answers the same ones.
        """
        if chunk.type == "step-start":
            self._steps.append([])
        elif chunk.type == "retract":
            blocks = chunk.payload["blocks"]
            self._steps[-1:] = [[one for one in step if not _is_text_of(one, blocks)] for step in self._steps[-1:]]
        elif chunk.type == "step-finish" and chunk.payload.get("reason") == "retry":
            del self._steps[-1:]
        elif self._steps:
            self._steps[-1].append(chunk)

    def finish(self, chunk: Chunk, answers: Sequence[Message]) -> Chunk:
        """Return the ``finish`` chunk with the answer as UI messages: one, or none if nothing left.

        Args:
            chunk: the ``finish`` of the request.
            answers: the messages of the answer in the conversation, after the last stage. The UI message has the id of
                the first, and the metadata that processors have added to any of them.
        """
        metadata = {key: value for message in answers for key, value in message.metadata.items() if key not in FORMATS}
        parts = [part for step in self._steps for part in _parts(step)]
        shown = any(not isinstance(part, StepStartPart) for part in parts)
        answer = Message("assistant", tuple(parts), answers[0].id if answers else "", metadata=metadata)
        messages = dump_messages(answer, "ai-sdk-ui") if shown else []
        return Chunk("finish", payload={**chunk.payload, "ui_messages": messages}, run_id=chunk.run_id)


def _is_text_of(chunk: Chunk, blocks: Container[str]) -> bool:
    return chunk.type.startswith(("text-", "reasoning-")) and chunk.id in blocks


def _parts(step: Iterable[Chunk]) -> Iterator[Part]:
    """Yield the parts of a step."""
    answer = Assembly()
    for chunk in step:
        answer.add(chunk)
    yield StepStartPart()
    yield from answer.message.parts
