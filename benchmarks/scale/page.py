"""The tables of docs/scale.md: computed from figures, and put between two marks of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.scale.figures import Figures, Spread
from benchmarks.scale.model import (
    cores_that_fill_a_parent,
    delays,
    rows_with_a_limit,
    rows_with_one_parent,
    streams_at,
)

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN = "<!-- computed by python -m benchmarks.scale: do not edit -->"
END = "<!-- end of what is computed -->"

CORES = (1, 10, 1_000)
LOADS = (0.5, 0.8, 0.9, 0.95)
USUAL_LOAD = 0.8
"""The share of a core up to which streams are planned."""


def tables(figures: Figures) -> str:
    """Return all tables as Markdown."""
    return "\n".join(_lines(figures))


def put_in(page: str, text: str) -> str:
    """Return the page with the text between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def taken_from(page: str) -> str:
    """Return what stands between the marks."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def _lines(figures: Figures) -> Iterator[str]:
    machine = figures["machine"]
    yield (
        f"Measured on {machine['date']} on {machine['cores']} virtual cores of {machine['cpu']}, CPython "
        f"{machine['python']}, Penstock at commit {machine['commit']}, while the machine had a load of "
        f"{machine['load']}. "
        "In brackets: the least and the most of the rounds."
    )
    yield "\n### Rows a core a second\n"
    yield from _rows(figures)
    yield "\n### A process\n"
    yield from _processes(figures)
    yield "\n### Streams a core\n"
    yield from _streams(figures)
    yield "\nHow long a piece takes, waiting for the core included, by the share of the core that is used:\n"
    yield from _delays(figures)
    yield "\n### Rows by cores\n"
    yield from _shared(figures)
    yield ""
    yield from _rows_by_cores(figures)
    yield "\n### Streams by cores\n"
    yield from _streams_by_cores(figures)
    yield "\n### Rows that a model judges\n"
    yield from _judged(figures)


def _rows(figures: Figures) -> Iterator[str]:
    texts = figures["texts"]
    for name, each in texts.items():
        yield (
            f"- {name}: {each['rows']:,} texts of {each['source']}, {each['chars'] / each['rows']:,.0f} characters and "
            f"{each['tokens'] / each['rows']:,.0f} tokens (o200k_base) on average"
        )
    yield ""
    heads = [head for name in texts for head in (f"{name}: rows", "characters", "tokens")]
    lines: list[list[str]] = []
    for workflow, found in figures["rows"].items():
        cells: list[str] = []
        for name, each in texts.items():
            if name not in found:
                cells += ["–", "–", "–"]
                continue
            rate = 1 / found[name]["median"]
            cells += [_rate(found[name]), _short(rate * each["chars"] / each["rows"])]
            cells += [_short(rate * each["tokens"] / each["rows"])]
        lines.append([workflow, *cells])
    yield from _table(["a second of one core", *heads], lines)


def _processes(figures: Figures) -> Iterator[str]:
    yield from _table(
        ["workflow", "CPU time until the first row is checked", "memory", "of it not shared"],
        [
            [f"`{name}`", _times(each["start_seconds"], 1e3, "ms"), _bytes(each["bytes"]), _bytes(each["own_bytes"])]
            for name, each in figures["processes"].items()
        ],
    )


def _streams(figures: Figures) -> Iterator[str]:
    loop = figures["loop_seconds"]
    yield from _table(
        [
            "preset",
            "CPU time of a piece",
            f"streams at {USUAL_LOAD:.0%} of a core",
            "bytes a stream, after 100 pieces",
            "after 400",
            "memory of a core's streams",
        ],
        [
            [
                f"`{name}`",
                _times(each["seconds"], 1e6, "µs"),
                f"{_streams_of(figures, name):,}",
                f"{each['bytes']:,}",
                f"{each['bytes_later']:,}",
                _bytes(_streams_of(figures, name) * each["bytes_later"]),
            ]
            for name, each in figures["streams"].items()
        ],
    )
    yield f"\nThe number of streams includes {loop * 1e6:.1f} µs a piece for the event loop's own work."


def _streams_of(figures: Figures, name: str) -> int:
    return streams_at(USUAL_LOAD, figures["streams"][name]["seconds"]["median"] + figures["loop_seconds"])


def _delays(figures: Figures) -> Iterator[str]:
    yield from _table(
        ["preset: median, 99th percentile", *(f"{load:.0%}" for load in LOADS)],
        [
            [f"`{name}`", *(_two(delays(each["pieces"], figures["loop_seconds"], load)) for load in LOADS)]
            for name, each in figures["streams"].items()
        ],
    )


def _two(both: tuple[float, float]) -> str:
    return ", ".join(f"{seconds * 1e3:.1f}" for seconds in both) + " ms"


def _shared(figures: Figures) -> Iterator[str]:
    yield from _table(
        [
            "prompts, one parent and two workers",
            "CPU time of a row: worker",
            "parent",
            "cores that fill one parent",
            "bytes read, written a row",
        ],
        [
            [
                f"`{name}`",
                _times(each["worker_seconds"], 1e6, "µs"),
                _times(each["parent_seconds"], 1e6, "µs"),
                f"{cores_that_fill_a_parent(each['parent_seconds']['median'], each['worker_seconds']['median']):.0f}",
                f"{each['read_bytes']:,.0f}, {each['written_bytes']:,.0f}",
            ]
            for name, each in figures["shared"].items()
        ],
    )


def _rows_by_cores(figures: Figures) -> Iterator[str]:
    machine = figures["assumed"]["machine_cores"]
    lines: list[list[str]] = []
    for name, each in figures["shared"].items():
        parent, worker = each["parent_seconds"]["median"], each["worker_seconds"]["median"]
        moved = each["read_bytes"] + each["written_bytes"]
        for cores in CORES:
            one = rows_with_one_parent(cores, parent, worker)
            many = rows_with_one_parent(min(cores, machine), parent, worker)
            total = many.per_second * max(1, cores / machine)
            lines.append(
                [
                    f"`{name}`, {cores:,}",
                    f"{_short(one.per_second)}{' (the parent is full)' if one.parent_full else ''}",
                    _short(total),
                    f"{_bytes(total * moved)}/s",
                    _duration(1e9 / total),
                ]
            )
    yield from _table(
        [
            "preset, cores",
            "rows a second, one parent",
            f"one parent for each {machine} cores",
            "its reading and writing",
            "its time for 1 bn rows",
        ],
        lines,
    )


def _streams_by_cores(figures: Figures) -> Iterator[str]:
    memory = figures["assumed"]["machine_bytes"] / figures["assumed"]["machine_cores"]
    lines: list[list[str]] = []
    for name, each in figures["streams"].items():
        streams, process = _streams_of(figures, name), figures["processes"][name]["bytes"]
        fits = int((memory - process) / each["bytes_later"])
        lines.append(
            [
                f"`{name}`",
                *(f"{streams * cores:,}" for cores in CORES),
                _bytes(process + streams * each["bytes_later"]),
                f"{fits / streams:,.0f} times as many",
            ]
        )
    yield from _table(
        [
            "preset",
            *(f"streams on {cores:,} {'core' if cores == 1 else 'cores'}" for cores in CORES),
            "memory a core, process included",
            f"what {_bytes(memory)} a core would hold",
        ],
        lines,
    )


def _judged(figures: Figures) -> Iterator[str]:
    assumed = figures["assumed"]
    rows, cores = rows_with_a_limit(assumed["judge_requests_per_minute"], figures["judged_row_seconds"])
    yield (
        f"With {assumed['judge_requests_per_minute']:,} requests a minute and one request a row, {rows:,.0f} rows a "
        "second can be judged, however many cores there are. An async row costs "
        f"{figures['judged_row_seconds'] * 1e6:,.0f} µs of CPU time beside what its judge does, so {cores:.2f} cores "
        f"are enough. Each request takes {assumed['judge_seconds']:g} s, so about "
        f"{rows * assumed['judge_seconds']:,.0f} have to run at once (`--jobs`)."
    )


# Cells


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (heads, ["---", *["---:"] * (len(heads) - 1)], *lines):
        yield f"| {' | '.join(cells)} |"


def _rate(seconds: Spread) -> str:
    return f"{_short(1 / seconds['median'])} ({_short(1 / seconds['high'])}–{_short(1 / seconds['low'])})"


def _times(seconds: Spread, times: float, unit: str) -> str:
    low, median, high = (f"{seconds[name] * times:,.0f}" for name in ("low", "median", "high"))
    return f"{median} ({low}–{high}) {unit}"


def _short(number: float) -> str:
    """Return a number with three digits that count."""
    for limit, unit in ((1e9, " bn"), (1e6, " M")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{float(f'{number:.3g}'):,.0f}"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.0f} min"


def _bytes(number: float) -> str:
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.1f} MB"
