"""The JSON of a hook (`HookCall`), the verdict about it (`Decision`), and the end of its process (`HookAnswer`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import thaw
from penstock.formats.wire import is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.formats.wire import Json, Value

Kind = Literal["prompt", "call", "permission", "result", "results", "start", "end", "nothing"]
"""What an event brings: a prompt, a call of a tool, the question whether one may run, a result that can be changed,
results that cannot, the start or the end of a session, or nothing for the model."""

Action = Literal["pass", "change", "ask", "deny"]


class HookInputError(PenstockError):
    """The JSON of a call cannot be read. The message names the place, and quotes nothing."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the JSON of the hook cannot be read: {problem}")


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict about a prompt, a call or a result.

    Attributes:
        action: ``pass``, ``change``, ``ask`` or ``deny``.
        reason: why, for ``ask`` and ``deny``, and for a change that the product does not allow.
        value: the guarded version, for ``change``, and for ``ask`` if the guards changed the call, too.
        finding: by which guards, and the kinds of what they found, for the log; quotes nothing.
    """

    action: Action = "pass"
    reason: str = ""
    value: Value = None
    finding: str = ""


PASSED = Decision()


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """How a hook's process ends.

    Attributes:
        code: the exit code.
        out: the bytes for stdout.
        err: the bytes for stderr.
    """

    code: int = 0
    out: bytes = b""
    err: bytes = b""


def answer_of(said: Json) -> HookAnswer:
    """Return the answer with a JSON object on stdout."""
    return HookAnswer(out=json.dumps(thaw(said)).encode() + b"\n")


def refused(reason: str) -> HookAnswer:
    """Return the answer that refuses an event by the exit code, with the reason on stderr."""
    return HookAnswer(2, err=f"{reason}\n".encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call of a hook.

    Attributes:
        event: the name of the event.
        session: the id of the session; empty if the product sent none.
        said: the JSON object.
    """

    event: str
    session: str
    said: Json

    def text(self, key: str) -> str:
        """Return a field as a text; other values as JSON, and an empty text if there is none."""
        value = self.said.get(key, "")
        return value if isinstance(value, str) else json.dumps(value)

    @property
    def call_id(self) -> str:
        """The id of the tool call; empty if there is none."""
        return self.text("tool_use_id")

    @property
    def batch_ids(self) -> list[str]:
        """The ids of the tool calls of a batch; none for other events."""
        calls: Value = self.said.get("tool_calls", [])
        listed = [one for one in calls if is_object(one)] if is_array(calls) else []
        return [str(one["tool_use_id"]) for one in listed if one.get("tool_use_id")]


def read_call(payload: bytes) -> HookCall:
    """Return the call whose JSON the product has written.

    Raises:
        HookInputError: it is no JSON object with the name of an event.
    """
    try:
        said: Value = json.loads(payload)
    except RecursionError:
        raise HookInputError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise HookInputError("it is not UTF-8") from None
    except ValueError as error:
        at = f", at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise HookInputError(f"it is no JSON{at}") from None
    if not is_object(said) or not isinstance(said.get("hook_event_name"), str):
        raise HookInputError("it is no object with a hook_event_name")
    session: Value = said.get("session_id")
    return HookCall(said["hook_event_name"], session if isinstance(session, str) else "", said)


class Product(Protocol):
    """A coding agent: its events, and the form of its answers."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    @property
    def events(self) -> Mapping[str, Kind]:
        """The kind of each of its events. An event that is not listed is read whole, and can only be refused."""
        ...

    @property
    def installed(self) -> tuple[str, ...]:
        """The events whose hooks are needed, in order."""
        ...

    @property
    def envelope(self) -> frozenset[str]:
        """The fields that only say where an event comes from; they are not read."""
        ...

    def written(self, call: HookCall, kind: Kind, decision: Decision) -> HookAnswer:
        """Return the answer for a decision about a prompt, a call or results."""
        ...
