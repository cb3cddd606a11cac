"""`as_router`: a component of pipelines that checks the user's input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haystack import component
from haystack.dataclasses import ChatMessage

from penstock.engine.values.tripwire import Tripwire
from penstock.formats.wire import Json
from penstock.workflows.adapters.haystack.messages import HaystackMessages
from penstock.workflows.adapters.haystack.stored import Named, Stored
from penstock.workflows.hosting import Host, HostSupport
from penstock.workflows.hosting.without_await import wait_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from penstock.engine.workflow import Item
    from penstock.workflows.hosting import HostOptions

ROUTER_SUPPORT = HostSupport(
    "haystack.as_router", frozenset({"process_input"}), retries=False, trusted_instructions=False, instead="as_agent(…)"
)


def as_router(*processors: Item, **options: Unpack[HostOptions]) -> GuardRouter:
    """Return a component that checks the user's input, for pipelines: ``messages`` or ``text`` in.

    It gives both as the guards left them, or only the ``tripwire``, so that a pipeline goes another way. Only
    `process_input` runs, and the log says so: guard the answer with `as_chat_generator`.

    Args:
        processors: processors and workflows with `process_input`.
        options: see `HostOptions`.

    Raises:
        OptionError: an option is not allowed, or there is no processor.
        UsageError: an option does not exist; or, unless ``strict=False``, a processor has no `process_input`.
        WorkflowError: the processors cannot run together.
    """
    return GuardRouter(Host(ROUTER_SUPPORT, processors, **options), Named(processors, options))


@component
class GuardRouter(Stored):
    """A component that checks the user's input. Made by `as_router`.

    Attributes:
        host: the processors.
    """

    _make = staticmethod(as_router)

    def __init__(self, host: Host, named: Named) -> None:
        self.host = host
        self._named = named
        component.set_output_types(self, messages=list[ChatMessage], text=str, tripwire=Tripwire)

    def run(self, messages: list[ChatMessage] | None = None, text: str | None = None) -> dict[str, Any]:
        """Return the guarded version, or the verdict."""
        return wait_for(self.run_async(messages, text))

    async def run_async(self, messages: list[ChatMessage] | None = None, text: str | None = None) -> dict[str, Any]:
        """Do the same in an event loop."""
        given = {"messages": messages, "text": None if text is None else [ChatMessage.from_user(text)]}
        left = Json()
        async with self.host.open() as request:
            forms = HaystackMessages(request)
            read = {name: forms.read(said) for name, said in given.items() if said is not None}
            await request.begin([one for said in read.values() for one in said])
            if request.tripwire is None:
                for name, said in read.items():
                    left[name] = forms.left(given[name] or (), said)
        if request.tripwire is not None:
            return {"tripwire": request.tripwire}
        if text is not None:
            left["text"] = "\n".join([one.text or "" for one in left["text"]])
        return left
