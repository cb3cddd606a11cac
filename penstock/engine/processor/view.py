"""`View`: what anybody may look at while a stage runs, read-only: conditions, and hooks. It knows values and calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, overload

if TYPE_CHECKING:
    from penstock.engine.processor.payload import Payload
    from penstock.engine.processor.state import StageCall
    from penstock.engine.values.facts import Key
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message

T = TypeVar("T")
D = TypeVar("D")


class View:
    """What a condition may look at: the payload as it stands, read-only."""

    __slots__ = ("_call", "_payload")

    _call: StageCall
    _payload: Payload

    def __init__(self, call: StageCall, payload: Payload) -> None:
        self._call = call
        self._payload = payload

    @property
    def stage_name(self) -> str:
        """The stage that is running, for example ``process_input``."""
        return self._call.stage.name

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that this stage shows, as edited so far, in order."""
        return self._call.stage.shows(self._payload.message_list)

    @property
    def system_messages(self) -> tuple[Message, ...]:
        """The system messages that have no owner; `MessageList.system` has those of all."""
        return self._payload.message_list.tagged(None)

    @property
    def text(self) -> str:
        """The text that this stage is about, as edited so far: of the shown messages, or of the answer at hand."""
        return self._call.stage.text(self._payload, self._call)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._call.run.run_id

    @property
    def request_context(self) -> dict[str, Value]:
        """The caller's mapping for this request; what a hook sets, later ones see."""
        return self._call.run.request_context

    @property
    def thread_id(self) -> str | None:
        """The id of the conversation's thread, if the caller named one: ``request_context["thread_id"]``."""
        return self._call.run.request_context.get("thread_id")

    @property
    def resource_id(self) -> str | None:
        """The id of whose thread it is, if the caller named it: ``request_context["resource_id"]``."""
        return self._call.run.request_context.get("resource_id")

    @property
    def unchecked(self) -> bool:
        """Whether checks that run beside the model have given no verdict yet: nothing may be stored before they do."""
        return bool(self._call.run.pending)

    @property
    def retry_count(self) -> int:
        """How often the model's answer was rejected since the last accepted one."""
        return self._call.run.retry_count

    @property
    def step_number(self) -> int:
        """The number of the model step at hand, from 0; rejected attempts count."""
        return self._call.run.step_number

    @overload
    def get(self, key: Key[T]) -> T | None: ...
    @overload
    def get(self, key: Key[T], default: D) -> T | D: ...
    def get(self, key: Key[T], default: D | None = None) -> T | D | None:
        """Return the fact under the key, or the default."""
        found: T | D | None = self._payload.facts.get(key, default)
        return found
