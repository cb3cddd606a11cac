"""Errors of the user's code as data: the message, and where in which file; and which files are the user's."""

from __future__ import annotations

import linecache
import os
import site
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.engine.values.errors import PenstockError
from penstock.workflows.loading import LoadingError
from penstock.workflows.policies.problems import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.workflows.studio.protocol import Json

_FOREIGN = tuple(
    os.path.realpath(each) + os.sep
    for each in {
        *(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(*site.getsitepackages(), site.getusersitepackages(), str(Path(penstock.__file__).parent)),
    }
)
"""The folders of the Python installation, of installed packages, and of penstock."""

_MOST_FRAMES = 50
_MOST_CHARACTERS = 64 * 1024  # of a message, and of a traceback


def is_own(path: str) -> bool:
    """Return whether a file is a source of the user."""
    return path.endswith(".py") and not os.path.realpath(path).startswith(_FOREIGN)


def problem_of(error: BaseException, kind: str) -> Json:
    """Return an error as data: its message, its place, the frames of the user's code, and the whole traceback.

    An error that Penstock raises where none of the user's code runs has no frames: its place is the file it is about,
    if there is one.
    """
    cause = error
    while isinstance(cause, PenstockError) and cause.__cause__ is not None:
        cause = cause.__cause__
    summary = traceback.extract_tb(cause.__traceback__)
    frames = _own_frames(summary) if isinstance(cause, PenstockError) else _frames(summary)
    place: Json = frames[-1] if frames else {}
    if isinstance(cause, SyntaxError) and cause.filename is not None:
        place = {"file": cause.filename, "line": cause.lineno, "source": (cause.text or "").strip()}
    elif not frames and isinstance(cause, LoadingError):
        place = {"file": cause.file}
    elif isinstance(cause, PolicyError):
        first = cause.problems[0].place
        place = {"file": os.path.realpath(first.file), "line": first.line}
    return {
        "kind": kind,
        "message": _cut(_message(error)),
        "file": place.get("file"),
        "line": place.get("line"),
        "source": place.get("source"),
        "frames": frames,
        "traceback": _cut(_traceback(error)),
    }


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the user's own error may fail at this, too
        text = ""
    return text if isinstance(error, PenstockError) and text else f"{type(error).__name__}: {text}".removesuffix(": ")


def _cut(text: str) -> str:
    """Return a text without its middle, if it is too long: the first and the last lines say the most."""
    left_out = len(text) - _MOST_CHARACTERS
    if left_out <= 0:
        return text
    half = _MOST_CHARACTERS // 2
    return f"{text[:half]}\n… {left_out:,} characters are left out …\n{text[-half:]}"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error, limit=-_MOST_FRAMES))
    except Exception:  # noqa: BLE001 - as above
        return type(error).__name__


def _frames(summary: Iterable[traceback.FrameSummary]) -> list[Json]:
    """Return the frames of the user's code; if there are none, of everything."""
    every = [frame for frame in summary if not frame.filename.startswith("<frozen")]
    return _own_frames(every) or [*map(_frame, every[-_MOST_FRAMES:])]


def _own_frames(summary: Iterable[traceback.FrameSummary]) -> list[Json]:
    """Return the frames of the user's code."""
    return [*map(_frame, [frame for frame in summary if is_own(frame.filename)][-_MOST_FRAMES:])]


def _frame(frame: traceback.FrameSummary) -> Json:
    return {"file": frame.filename, "line": frame.lineno, "name": frame.name, "source": frame.line or ""}


def where_is(thread: int) -> list[Json]:
    """Return where a thread is at the moment, outermost frame first."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage] - documented, and the only way
    return [] if frame is None else _frames(traceback.extract_stack(frame))


def note_source(path: str, text: str) -> None:
    """Let tracebacks show the lines of a file as they were read, not as they are now."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
