"""Bodies of requests, read with a limit, and answers in JSON."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.protocol import dumps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_REST_SECONDS = 20.0  # for the rest of a body that is refused


def answer_json(value: object, status: int = 200) -> Response:
    """Return an answer in JSON."""
    return Response(dumps(value), status, media_type="application/json")


def number_of(given: str | None, name: str) -> int | None:
    """Return the whole number of a query parameter; None if it is not given.

    Raises:
        StudioError: it is no whole number.
    """
    if not given:
        return None
    if not given.isascii() or not given.isdecimal() or len(given) > 15:  # noqa: PLR2004 - no list is that long
        raise StudioError("bad_request", f"{name} is a whole number", field=name)
    return int(given)


def refuse_large(request: Request, limit: int, what: str, option: str) -> None:
    """Refuse a request that says that its body is larger than a limit, before it is read.

    Args:
        request: the request.
        limit: in bytes.
        what: what is too large, in words.
        option: the option of the command that allows more.

    Raises:
        StudioError: it is larger.
    """
    given = request.headers.get("content-length", "")
    if given.isdecimal() and int(given) > limit:
        raise StudioError.too_large(limit, what, option)


async def body_of(request: Request, limit: int) -> bytes:
    """Return the body of a request.

    Raises:
        StudioError: it is too large.
    """
    made = bytearray()
    async with read_to_its_end(request):
        refuse_large(request, limit, "the text", "--max-text")
        async for piece in request.stream():
            made += piece
            if len(made) > limit:
                raise StudioError.too_large(limit, "the text", "--max-text")
    return bytes(made)


@contextlib.asynccontextmanager
async def read_to_its_end(request: Request) -> AsyncGenerator[None]:
    """Read the rest of a body that is refused: a browser that is cut off while it sends does not read the answer."""
    try:
        yield
    except StudioError as error:
        consumed = contextlib.suppress(RuntimeError, ClientDisconnect)  # it was read already, or nobody waits
        if error.kind != "too_large":
            raise
        with anyio.move_on_after(_REST_SECONDS), consumed:
            async for _ in request.stream():
                pass
        raise
