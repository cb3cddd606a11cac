"""`Served`: the record of one request, without any of its texts, for the access log, the metrics and a file."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.gateway.ended import Ended
    from penstock.workflows.gateway.upstreams.pool import Trip

ACCESS = logging.getLogger("penstock.gateway.access")
"""The logger of the access log: a line for each request, at INFO."""

_MOST_UNKNOWN = 20
_SERVER_ERROR = 500


@dataclass(slots=True)
class Served:
    """One request that was served, or refused.

    Attributes:
        time: when it began, in UTC.
        request_id: its id, which the reply has in ``x-penstock-request-id``.
        endpoint: the protocol.
        route: the route; empty if none took it.
        client: the name of the client's key; empty if it has none.
        model: the model, if it has the form of a model's name.
        status: the HTTP status of the reply; 0 if none was sent.
        outcome: ``ok``, ``blocked``, ``refused`` (by the gateway), ``error``, ``gone``, ``stalled``, ``timeout``, or
            ``cut`` (the gateway shut down). ``asked``: it waits for a person. Of a check for another product also
            ``answered``.
        error: a word for the failure; empty if there was none.
        cause: the class of the exception behind it.
        step: the step whose verdict stopped it.
        stage: the stage of that verdict.
        reason: the reason of that verdict or failure, for the operator only.
        upstream: the provider that answered, or was tried last.
        attempts: how many times the request was sent to providers.
        failures: the kind of each failed attempt.
        cached: whether the answer came from the cache.
        resumed: whether it is the rest of a stream for a client that came back.
        streamed: whether the answer was streamed.
        edited: whether guards changed the request or the answer.
        shadows: what each shadow policy that was drawn would have done, by its name in the file: ``passed``,
            ``edited``, ``blocked``, or ``failed``.
        unknown: the fields and events that no table knows.
        input_tokens: the tokens of the prompt, if the provider reported them, or a budget counted them.
        output_tokens: the tokens of the answer.
        bytes_in: how long the body of the request was.
        bytes_out: how long the body of the reply was.
        seconds: how long it took.
        first_byte: how long the client waited for the first byte of the answer.
        upstream_seconds: how long the provider took until its first byte.
        run_id: the id of the guards' run.
        review: the id of the stored request that waits for an operator, or whose approval let this one through.
        trace_id: the id of the trace, if there is one.
    """

    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    request_id: str = ""
    endpoint: str = ""
    route: str = ""
    client: str = ""
    model: str = ""
    status: int = 0
    outcome: str = "ok"
    error: str = ""
    cause: str = ""
    step: str = ""
    stage: str = ""
    reason: str = ""
    upstream: str = ""
    attempts: int = 0
    failures: list[str] = field(default_factory=list[str])
    cached: bool = False
    resumed: bool = False
    streamed: bool = False
    edited: bool = False
    shadows: Mapping[str, str] = field(default_factory=dict[str, str])
    unknown: list[str] = field(default_factory=list[str])
    input_tokens: int | None = None
    output_tokens: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    first_byte: float | None = None
    upstream_seconds: float | None = None
    run_id: str = ""
    review: str = ""
    trace_id: str = ""

    def add_end(self, ended: Ended) -> None:
        """Take over how the exchange ended."""
        self.model = ended.model
        self.streamed = ended.streamed
        self.edited = ended.edited
        self.unknown = list(ended.unknown[:_MOST_UNKNOWN])
        self.first_byte = ended.first_byte
        self.upstream_seconds = ended.upstream_seconds
        self.run_id = ended.run_id
        self.review = ended.review
        if ended.standing:
            self.outcome = "blocked" if ended.standing == "rejected" else "asked"
        if ended.usage is not None:
            self.input_tokens, self.output_tokens = ended.usage
        if ended.error:
            theirs = ended.status < _SERVER_ERROR and not _is_ours(ended.error)  # a refused field, or no JSON
            self.outcome, self.error = "refused" if theirs else "error", ended.error
            self.cause = "" if ended.cause is None else type(ended.cause).__name__
            self.reason = ended.reason
        if ended.verdict is not None:
            self._add_verdict(ended.verdict)

    def _add_verdict(self, verdict: Tripwire) -> None:
        self.outcome, self.reason = "blocked", verdict.reason
        self.step, self.stage = verdict.processor_id, verdict.stage or ""

    def add_check(self, verdict: str, tripwire: Tripwire | None = None, *, edited: bool, failed: bool) -> None:
        """Take over the verdict of a check for another product.

        Args:
            verdict: ``passed``, ``edited``, ``blocked``, ``asked`` or ``answered``.
            tripwire: the verdict of the guard that blocked.
            edited: whether guards changed a text of the request.
            failed: whether it is blocked because a guard failed.
        """
        self.edited = edited
        if verdict not in ("passed", "edited"):
            self.outcome = verdict
        if tripwire is not None:
            self._add_verdict(tripwire)
        if failed:
            self.error = "guard_failed"

    @property
    def verdict(self) -> str:
        """The verdict of the guards, in the words of `shadows`."""
        if self.error == "guard_failed":
            return "failed"
        return "blocked" if self.outcome == "blocked" else "edited" if self.edited else "passed"

    def add_trip(self, trip: Trip) -> None:
        """Take over what happened on the way to the providers."""
        self.upstream, self.attempts, self.failures = trip.provider, trip.attempts, trip.failures

    def as_json(self) -> str:
        """Return it as a line of JSON, without empty fields."""
        kept = {name: value for name, value in asdict(self).items() if value not in ("", None, [], {}, False)}
        kept["seconds"] = round(self.seconds, 6)
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))

    def __str__(self) -> str:
        """Return it as a line for readers."""
        return self.as_text()

    def as_text(self) -> str:
        """Return it as a line for readers."""
        parts = [f"{self.status or '-'} {self.outcome}", f"{self.seconds * 1000:.0f}ms"]
        named = (
            "route",
            "endpoint",
            "model",
            "client",
            "upstream",
            "error",
            "cause",
            "step",
            "stage",
            "reason",
            "review",
        )
        for name in named:
            value: str = getattr(self, name)
            if value:
                parts.append(f"{name}={json.dumps(value, ensure_ascii=False) if _needs_quotes(value) else value}")
        if self.attempts > 1:
            parts.append(f"attempts={self.attempts}")
        parts += [word for word in ("cached", "resumed", "edited") if getattr(self, word)]
        if self.shadows:
            parts.append(f"shadows={','.join(f'{name}:{verdict}' for name, verdict in self.shadows.items())}")
        if self.unknown:
            parts.append(f"unknown={','.join(self.unknown)}")
        if self.input_tokens is not None:
            parts.append(f"tokens={self.input_tokens}+{self.output_tokens}")
        if self.request_id:
            parts.append(f"id={self.request_id}")
        return " ".join(parts)


def _is_ours(error: str) -> bool:
    """Return whether an error is one of the provider or the guards. A stream that it ends has the status 200."""
    return error in ("guard_failed", "provider") or error.startswith("upstream_")


def _needs_quotes(value: str) -> bool:
    return not value.isprintable() or any(each in value for each in ' "=')


class RecordFile:
    """A file that gets a line of JSON for each request. It is opened again if somebody moved it, as logrotate does.

    Args:
        path: the file.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._failed = False
        self._file = self._opened()

    def write(self, served: Served) -> None:
        """Write a line. A full disk is logged once, and stops no request."""
        with self._lock:
            try:
                if not self._path.exists():
                    self._file.close()
                    self._file = self._opened()
                self._file.write(f"{served.as_json()}\n".encode(errors="replace"))
                self._failed = False
            except (OSError, ValueError) as error:
                if not self._failed:
                    ACCESS.error("the record of a request cannot be written to %s: %s", self._path, error)
                self._failed = True

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _opened(self) -> FileIO:
        return self._path.open("ab", buffering=0)
