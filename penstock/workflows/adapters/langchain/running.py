"""The request of a run, and where the hooks of the run find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from langchain_core.runnables import ensure_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig

    from penstock.workflows.hosting import Host, HostRequest


class OpenRequest(str):
    """The request of a run, in the state of the graph, where it lives as long as the run does.

    It is a str, its id, to whoever streams or stores the state.
    """

    __slots__ = ("host", "request")

    def __new__(cls, host: Host) -> Self:
        """Open a request."""
        request = host.open()
        made = super().__new__(cls, request.run.run_id)
        made.host, made.request = host, request
        return made

    host: Host
    request: HostRequest

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: there is one, whoever copies the state."""
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return what makes its id: a request is not stored."""
        return str, (str(self),)

    @property
    def current(self) -> HostRequest:
        """The request; another one if it was closed, because the framework repeats a failed step."""
        if self.request.closed:
            self.request = self.host.open()
        return self.request


def request_of(host: Host, held: Any = None) -> OpenRequest:
    """Return the request of a run: the one that its state holds, or its configuration, or else another one."""
    if isinstance(held, OpenRequest):
        return held
    config = ensure_config()
    given: Sequence[OpenRequest] = (config.get("configurable") or {}).get(_key(_depth(config) - 1)) or ()
    return next((one for one in given if one.host is host), None) or OpenRequest(host)


def with_requests(config: RunnableConfig | None, opened: Sequence[OpenRequest]) -> RunnableConfig:
    """Return a configuration of a graph that holds requests for the hooks of this graph, not of those within it."""
    whole = ensure_config(config)
    return {**whole, "configurable": {**(whole.get("configurable") or {}), _key(_depth(whole)): opened}}


def _key(depth: int) -> str:
    return f"__penstock_request_{depth}"  # LangGraph stores no value with two underscores before its name


def _depth(config: RunnableConfig) -> int:
    """Return in how many nodes something runs that has this configuration."""
    path: str = (config.get("configurable") or {}).get("checkpoint_ns") or ""
    return len(path.split("|")) if path else 0
