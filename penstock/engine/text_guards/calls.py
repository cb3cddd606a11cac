"""Calls of a guard's `scan` and `act`: off the event loop where a text is long, with the step's policy, and checked.

Whole texts and streams call guards in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol, SupportsIndex, cast

from penstock.engine.processor.stages import WrongReturnError
from penstock.engine.tasks import runs_without_loop
from penstock.engine.text_guards.window import PartStart, TextWindow
from penstock.engine.values.edits import Edit
from penstock.engine.values.frozen import is_mapping
from penstock.engine.workers import LONG, run_in_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.window import Hit, Scanned
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.texts import TextPlace

LONG_FOR_ASYNC = 500  # characters, since windows of guards that wait, as for a judge, are searched many at a time


class MayWait(Protocol):
    """The part of a `TextGuard` that says where its `scan` may run."""

    awaits: bool
    offloadable: bool


def scan_or_move(
    guard: MayWait, scan: Callable[..., Value], window: TextWindow, ctx: AnyContext
) -> Scanned | Awaitable[Scanned]:
    """Return a guard's findings in a window; an awaitable of that if it waits, or is moved off the event loop.

    If the guard fails and its policy lets the window pass, nothing is found in it.
    """
    most = LONG_FOR_ASYNC if guard.awaits else LONG
    try:
        if len(window.text) > most and guard.offloadable and not runs_without_loop():
            result: Scanned | Awaitable[Scanned] = _scan_in_worker(partial(scan, window, ctx))
        else:
            result = scan(window, ctx)
    except Exception as error:  # noqa: BLE001 - the policy decides
        return passed(error, window, ctx)
    return result if isinstance(result, tuple) else _scanned(result, window, ctx)


async def _scanned(waiting: Awaitable[Scanned], window: TextWindow, ctx: AnyContext) -> Scanned:
    try:
        return await ctx.in_time(waiting)
    except Exception as error:  # noqa: BLE001 - the policy decides
        return passed(error, window, ctx)


def passed(error: Exception, window: TextWindow, ctx: AnyContext) -> Scanned:
    """Return that nothing was found in a window on which a guard failed, if its policy lets that pass.

    The guard begins anew behind the window.

    Raises:
        Exception: the policy does not, so the error is raised again.
    """
    ctx.let_pass(error)
    window.notes.clear()
    return (), len(window.text)


def acted(
    act: Callable[[Sequence[Hit], AnyContext], object], hits: Sequence[Hit], ctx: AnyContext
) -> list[Iterable[Edit]]:
    """Return a guard's edits for each hit, checked.

    Raises:
        WrongReturnError: there is not one list of edits for each.
    """
    listed = [_listed(edits) for edits in _listed(act(hits, ctx))]
    if len(listed) != len(hits):
        raise WrongReturnError(f"its act got {len(hits)} findings, but returned {len(listed)} lists of edits")
    for edit in chain.from_iterable(listed):
        if not isinstance(edit, Edit) or not (_is_place(edit.start) and _is_place(edit.end)):
            raise WrongReturnError(f"its act returned {type(edit).__name__} as an edit; return Edit(start, end, text)")
        if not isinstance(cast("object", edit.text), str):
            raise WrongReturnError(f"an edit of its act has {type(edit.text).__name__} as its text")
    return cast("list[Iterable[Edit]]", listed)


def _is_place(at: object) -> bool:
    return isinstance(at, SupportsIndex)


def _listed(made: object) -> list[object]:
    if isinstance(made, (str, bytes)) or is_mapping(made) or not isinstance(made, Iterable):
        raise WrongReturnError(f"its act returned {type(made).__name__}; return a list of edits for each finding")
    return list(cast("Iterable[object]", made))


def check_edits(made: object) -> None:
    """Check the result of a guard's `judged`.

    Raises:
        WrongReturnError: it is no mapping.
    """
    if not isinstance(made, Mapping):
        raise WrongReturnError(f"its judged returned {type(made).__name__}; return a mapping of places to edits")


async def _scan_in_worker(scan: Callable[[], Scanned | Awaitable[Scanned]]) -> Scanned:
    result = await run_in_worker(scan)
    return result if isinstance(result, tuple) else await result


def window_of(run: Sequence[Text]) -> TextWindow:
    """Return the window over whole texts that are read as one."""
    first = run[0]
    if len(run) == 1:
        return TextWindow(
            first.text,
            kind=first.kind,
            key=first.key,
            fixed=first.fixed,
            number=first.number,
            parts=(PartStart(0, first.place),),
        )
    parts: list[PartStart] = []
    begin = 0
    for text in run:
        parts.append(PartStart(begin, text.place))
        begin += len(text.text)
    joined = "".join(text.text for text in run)
    return TextWindow(joined, kind=first.kind, fixed=any(text.fixed for text in run), parts=tuple(parts))


def in_places(hits: Sequence[Hit], acted: Sequence[Iterable[Edit]]) -> dict[TextPlace, Edits]:
    """Return edits by place. An edit across several places puts its text into the first, and deletes in the others."""
    edits: dict[TextPlace, list[Edit]] = {}
    for hit, made in zip(hits, acted, strict=True):
        for edit in made:
            text = edit.text
            for place, start, end in hit.window.pieces(edit.start, edit.end):
                same = start == edit.start and end == edit.end
                piece = edit if same else Edit(start, end, text, edit.kind, edit.step, edit.hides)
                edits.setdefault(place, []).append(piece)
                text = ""
    return {place: tuple(made) for place, made in edits.items()}
