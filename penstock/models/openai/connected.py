"""What models and embedders share: a place that is asked, over connections that are kept; it knows no request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.models.openai.place import reached

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from penstock.models.openai.place import Reach


class Connected:
    """What asks one place. It keeps its connections until it is closed (``async with``).

    Attributes:
        name: what it is called, for people: ``openai/gpt-5``.
        model: what the provider calls it: ``gpt-5``.
        provider: who offers it, and what is special there.
    """

    __slots__ = ("_http", "model", "name", "provider")

    def __init__(self, name: str, reach: Reach) -> None:
        """Find the place.

        Raises:
            OptionError: the provider is not known, there is no key, or an option cannot be.
            MissingExtraError: the extra is not installed.
        """
        found = reached(type(self).__name__, name, reach)
        self.name = found.name
        self.model = found.model
        self.provider = found.provider
        self._http = found.http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, base_url={self._http.place.url!r})"

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
