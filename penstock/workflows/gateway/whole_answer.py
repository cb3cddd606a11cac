"""The shortest way of a whole answer through the guards of a stream: one text, as one chunk.

The chunks around a text say where it begins and ends, and why the answer ended. Hooks of a processor may look at them.
Text guards do not: of a chunk they see its texts, and these chunks hold none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from penstock.engine.graph.plan import plan_steps
from penstock.engine.text_guards.text_guard import text_guard_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.values.chunks import Chunk

_known: WeakKeyDictionary[Plans, bool] = WeakKeyDictionary()

_ONE_TEXT = ("text-start", "text-delta", "text-end", "finish")


def reads_texts_only(plans: Plans) -> bool:
    """Return whether all steps that read the stream of an answer are text guards: no hook sees the chunks themselves.

    A step that may end the stream early is none of them: it has to see where the stream stands.
    """
    found = _known.get(plans)
    if found is None:
        plan = plans.stream
        steps = plan_steps(plan.block, fallbacks=True)
        found = _known[plans] = not plan.ends and all(text_guard_of(step.processor) is not None for step in steps)
    return found


def only_text(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Return the chunk with the text of a whole answer that is one text and nothing else; else all of its chunks."""
    if len(chunks) != len(_ONE_TEXT) or tuple([chunk.type for chunk in chunks]) != _ONE_TEXT:
        return chunks
    return chunks[1:2]
