"""`ApprovalLog`: the calls that an agent has asked a person about, and which of the approvals were used."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

from penstock.engine.values.frozen import thaw
from penstock.models.conversations import call_key

if TYPE_CHECKING:
    from penstock.engine.run.run import Run
    from penstock.engine.values.messages import ToolPart

Approvals: TypeAlias = Literal["any", "asked"]
"""Whose approvals count: of any call to a tool that needs one, or only of calls that were asked about."""

MOST_CALLS = 10_000
"""How many calls an agent remembers; the oldest is forgotten first."""


def thread_of(run: Run) -> str | None:
    """Return the id of the thread that a run belongs to, or None."""
    given = run.request_context.get("thread_id")
    return None if given is None else str(given)


class ApprovalLog:
    """Which calls were asked about, and whose approval was used. Lives as long as the agent, in this process.

    A call is known by the id of its thread and its own id, its tool and its arguments. Safe to share between threads.

    Args:
        most: how many calls are remembered.
    """

    def __init__(self, most: int = MOST_CALLS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: OrderedDict[tuple[str | None, str], dict[bytes, bool]] = OrderedDict()
        """For each call and each of its arguments: whether the approval waits to be used."""

    def ask(self, thread: str | None, call: ToolPart) -> None:
        """Note that a person is asked about a call, so that one approval of it counts."""
        with self._lock:
            self._entry(thread, call)[_digest(call)] = True

    def use(self, thread: str | None, call: ToolPart, *, asked: bool) -> bool:
        """Return whether the approval of a call counts, and note that it is used. Of two requests, it counts in one.

        It counts once for each time that the agent asked. If the agent has not asked about this call id at all, it
        counts once if ``asked``: another process may have asked.
        """
        with self._lock:
            known = self._calls.get((thread, call_key(call)), {})
            counts = known.get(_digest(call), asked and not known)
            if counts:
                self._entry(thread, call)[_digest(call)] = False
            return counts

    def _entry(self, thread: str | None, call: ToolPart) -> dict[bytes, bool]:
        key = thread, call_key(call)
        entry = self._calls.setdefault(key, {})
        self._calls.move_to_end(key)
        if len(self._calls) > self._most:
            self._calls.popitem(last=False)
        return entry


def _digest(call: ToolPart) -> bytes:
    """Return a digest of a call's tool and arguments."""
    return sha256(json.dumps([call.name, thaw(call.arguments)], sort_keys=True).encode()).digest()
