"""Metrics of the gateway in the text format of Prometheus.

Three kinds of metrics and one page need no library: that of Prometheus keeps a registry for the whole process, which is
the application's where the gateway is a middleware.
"""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.workflows.gateway.served import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""The bounds of histograms of times, in seconds."""

_MOST_SERIES = 2_000

Labels = tuple[str, ...]


class Counter:
    """A number that grows, by labels.

    Args:
        name: the name of the metric.
        text: its meaning.
        labels: the names of its labels.
    """

    kind = "counter"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name = name
        self.text = text
        self.labels = labels
        self._values: dict[Labels, float] = {}
        self._lock = Lock()

    def add(self, *labels: str, amount: float = 1) -> None:
        """Add to the number. Beyond 2,000 series, labels count as ``other``."""
        with self._lock:
            if labels not in self._values and len(self._values) >= _MOST_SERIES:
                labels = ("other",) * len(self.labels)
            self._values[labels] = self._values.get(labels, 0) + amount

    def lines(self) -> Iterator[str]:
        """Yield the lines of the page."""
        with self._lock:
            values = sorted(self._values.items())
        for labels, value in values:
            yield f"{self.name}{written_labels(self.labels, labels)} {value:g}"


class Gauge:
    """A number that is asked for when the page is written.

    Args:
        name: the name of the metric.
        text: its meaning.
        value: returns it.
    """

    kind = "gauge"

    def __init__(self, name: str, text: str, value: Callable[[], float]) -> None:
        self.name = name
        self.text = text
        self._value = value

    def lines(self) -> Iterator[str]:
        """Yield the lines of the page."""
        yield f"{self.name} {self._value():g}"


class Histogram:
    """How many values lie below each bound, by labels.

    Args:
        name: the name of the metric.
        text: its meaning.
        labels: the names of its labels.
    """

    kind = "histogram"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name = name
        self.text = text
        self.labels = labels
        self._series: dict[Labels, list[float]] = {}
        self._lock = Lock()

    def add(self, *labels: str, value: float) -> None:
        """Add a value."""
        with self._lock:
            counts = self._series.get(labels)
            if counts is None:
                if len(self._series) >= _MOST_SERIES:
                    labels = ("other",) * len(self.labels)
                counts = self._series.setdefault(labels, [0.0] * (len(SECONDS) + 2))
            counts[bisect_left(SECONDS, value)] += 1
            counts[-1] += value

    def lines(self) -> Iterator[str]:
        """Yield the lines of the page."""
        with self._lock:
            series = sorted((labels, list(counts)) for labels, counts in self._series.items())
        names = (*self.labels, "le")
        for labels, counts in series:
            below = 0.0
            for bound, count in zip((*(f"{one:g}" for one in SECONDS), "+Inf"), counts, strict=False):
                below += count
                yield f"{self.name}_bucket{written_labels(names, (*labels, bound))} {below:g}"
            yield f"{self.name}_sum{written_labels(self.labels, labels)} {counts[-1]:.6g}"
            yield f"{self.name}_count{written_labels(self.labels, labels)} {below:g}"


def written_labels(names: Labels, values: Labels) -> str:
    """Return labels as they stand on the page."""
    if not names:
        return ""
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for value in values)
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, escaped, strict=True)) + "}"


class GatewayMetrics:
    """The metrics of one gateway.

    No label comes from a client: routes, endpoints, providers and steps are named by the operator.

    Args:
        open_requests: returns how many requests are at work.
        ready: returns whether the gateway takes requests.
        fresh: returns whether the newest files are in use.
    """

    def __init__(self, open_requests: Callable[[], int], ready: Callable[[], bool], fresh: Callable[[], bool]) -> None:
        name = "penstock_gateway_"
        self.requests = Counter(f"{name}requests_total", "Requests.", "route", "endpoint", "status", "outcome")
        self.seconds = Histogram(f"{name}request_seconds", "How long requests took.", "route", "endpoint")
        self.first_byte = Histogram(f"{name}first_byte_seconds", "How long clients waited for the first byte.", "route")
        self.upstream = Histogram(f"{name}upstream_seconds", "How long providers took until then.", "upstream")
        self.verdicts = Counter(f"{name}verdicts_total", "Verdicts that stopped a request.", "route", "step", "stage")
        self.errors = Counter(f"{name}errors_total", "Requests that failed.", "route", "error")
        self.failures = Counter(f"{name}upstream_failures_total", "Failed attempts at providers.", "kind")
        self.tokens = Counter(
            f"{name}tokens_total", "Tokens, as providers report or budgets count them.", "route", "kind"
        )
        self.bytes = Counter(f"{name}bytes_total", "Bytes of bodies.", "route", "direction")
        self.cached = Counter(f"{name}cached_total", "Answers from the cache.", "route")
        self.edited = Counter(f"{name}edited_total", "Exchanges that guards changed.", "route")
        self.shadows = Counter(
            f"{name}shadow_verdicts_total",
            "Verdicts of shadow policies, and whether the route's own guards did the same.",
            *("route", "shadow", "verdict", "agrees"),
        )
        self.unknown = Counter(f"{name}unknown_total", "Fields and events that no table knows.", "route")
        self.reloads = Counter(f"{name}reloads_total", "Reloads of the files.", "result")
        self._all = (
            self.requests, self.seconds, self.first_byte, self.upstream, self.verdicts, self.errors, self.failures,
            self.tokens, self.bytes, self.cached, self.edited, self.shadows, self.unknown, self.reloads,
            Gauge(f"{name}open_requests", "Requests at work.", open_requests),
            Gauge(f"{name}ready", "Whether it takes requests.", ready),
            Gauge(f"{name}files_in_use", "Whether the newest files are in use, not the last good ones.", fresh),
        )  # fmt: skip

    def add(self, served: Served) -> None:
        """Count a request."""
        route = served.route
        self.requests.add(route, served.endpoint, str(served.status), served.outcome)
        self.seconds.add(route, served.endpoint, value=served.seconds)
        if served.first_byte is not None:
            self.first_byte.add(route, value=served.first_byte)
        if served.upstream and served.upstream_seconds is not None:
            self.upstream.add(served.upstream, value=served.upstream_seconds)
        for kind in served.failures:
            self.failures.add(kind)
        for shadow, verdict in served.shadows.items():
            self.shadows.add(route, shadow, verdict, "yes" if verdict == served.verdict else "no")
        amounts = (
            (self.verdicts, (route, served.step, served.stage), bool(served.step)),
            (self.errors, (route, served.error), bool(served.error)),
            (self.tokens, (route, "input"), served.input_tokens or 0),
            (self.tokens, (route, "output"), served.output_tokens or 0),
            (self.bytes, (route, "in"), served.bytes_in),
            (self.bytes, (route, "out"), served.bytes_out),
            (self.cached, (route,), served.cached),
            (self.edited, (route,), served.edited),
            (self.unknown, (route,), len(served.unknown)),
        )
        for counter, labels, amount in amounts:
            if amount:
                counter.add(*labels, amount=amount)

    def page(self) -> bytes:
        """Return all metrics in the text format."""
        lines: list[str] = []
        for metric in self._all:
            lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join([*lines, ""]).encode()
