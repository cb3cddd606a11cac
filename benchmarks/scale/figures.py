"""The figures that the tables of docs/scale.md are computed from: their shape, and how they are read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

FILE = Path(__file__).with_name("figures.json")


class Spread(TypedDict):
    """Several rounds of one measurement: the median, the least and the most."""

    median: float
    low: float
    high: float


class Texts(TypedDict):
    """The texts that were read."""

    source: str
    rows: int
    chars: int
    tokens: int


class Stream(TypedDict):
    """A live stream: the CPU seconds of a piece, and the bytes that it holds.

    ``pieces`` are means of equally many pieces each, the cheapest first, so that dear pieces are not lost in a mean.
    """

    seconds: Spread
    pieces: list[float]
    bytes: int
    bytes_later: int


class Process(TypedDict):
    """A new process that has checked its first row: CPU seconds, and its memory with and without shared pages."""

    start_seconds: Spread
    bytes: int
    own_bytes: int


class Shared(TypedDict):
    """A run by a parent and two workers: the CPU seconds of a row in each, and the bytes of a row on the disk."""

    parent_seconds: Spread
    worker_seconds: Spread
    read_bytes: float
    written_bytes: float


class Assumed(TypedDict):
    """What was not measured: put in your own figures."""

    machine_cores: int
    machine_bytes: int
    judge_requests_per_minute: int
    judge_seconds: float


class Figures(TypedDict):
    """Everything. ``rows``: CPU seconds of a row by workflow, then by kind of texts."""

    machine: dict[str, str]
    texts: dict[str, Texts]
    rows: dict[str, dict[str, Spread]]
    streams: dict[str, Stream]
    loop_seconds: float
    processes: dict[str, Process]
    shared: dict[str, Shared]
    judged_row_seconds: float
    assumed: Assumed


def load(file: Path = FILE) -> Figures:
    """Read the figures of a file."""
    found: Figures = json.loads(file.read_text(encoding="utf-8"))
    return found


def save(figures: Figures, file: Path = FILE) -> None:
    """Write the figures to a file."""
    file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
