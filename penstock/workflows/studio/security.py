"""Who may talk to the studio: host, origin, content type and token of every request, and the headers of answers.

A page of another site must neither read from the studio nor make it run anything. Four things prevent it: the name in
``Host`` (a site that lets its name point to this machine is refused), ``Origin`` and ``Sec-Fetch-Site``, content types
that a form cannot send, and answers without any permission for other origins.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse

from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.settings import address_of, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.workflows.studio.settings import Settings

UPLOADS = "/api/files"
UPLOAD_TYPES = ("application/x-ndjson", "application/jsonl")
_READING = ("GET", "HEAD")

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""The headers of every answer."""


def content_policy(nonce: str | None = None) -> str:
    """Return the content security policy of an answer; with a nonce, that of the page."""
    if nonce is None:
        return "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


@dataclass(frozen=True, slots=True)
class Guarded:
    """An ASGI application behind these checks."""

    app: ASGIApp
    settings: Settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on; add the headers to the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added.update(HEADERS)
                added.setdefault("content-security-policy", content_policy())
                added.setdefault("cache-control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        try:
            _check_host(headers, self.settings)
            _check_origin(headers, scope)
            if self.settings.token is not None:
                given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
                if given and _same(given, self.settings.token) and _is_page(scope):
                    await _signed_in(scope, cookie_name(headers), given)(scope, receive, with_headers)
                    return
                _check_token(headers, self.settings.token)
            _check_type(headers, scope)
        except StudioError as error:
            await JSONResponse(error.to_json(), error.status)(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)


def _is_page(scope: Scope) -> bool:
    return scope["method"] in _READING and scope["path"] == "/"


# Where the request comes from


def _check_host(headers: Headers, settings: Settings) -> None:
    given = headers.getlist("host")
    name = _name_of(given[0]) if len(given) == 1 else ""
    if name == "localhost" or (name and name in settings.allowed_hosts):
        return
    # A site cannot make its pages carry an address as their host, so an address needs no list.
    if name and address_of(name) is not None and (is_loopback(name) or not is_loopback(settings.host)):
        return
    raise StudioError(
        "host",
        f"the studio is not reached under the name {name[:100]!r}; if that is right, start it with --allow-host NAME",
    )


def _name_of(host: str) -> str:
    """Return a host without its port, in lower case; empty if the port is no number."""
    name, port = _parts_of(host)
    return name.lower().rstrip(".") if port is None or port.isdecimal() else ""


def _parts_of(host: str) -> tuple[str, str | None]:
    """Return the name and the port of a host; None for no port."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and "]" not in port else (host, None)


def _check_origin(headers: Headers, scope: Scope) -> None:
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none")
    if origin is not None and origin not in (f"http://{headers['host']}", f"https://{headers['host']}"):
        raise StudioError("origin", "the studio answers its own page only, not pages of other sites")
    opened = _is_page(scope) and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("same-origin", "none") and not opened:
        raise StudioError("origin", "the studio answers its own page only, not pages of other sites")


def _check_type(headers: Headers, scope: Scope) -> None:
    """Refuse bodies that a form or an image of another site could send without asking."""
    if scope["method"] in (*_READING, "DELETE"):
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = UPLOAD_TYPES if scope["path"] == UPLOADS else ("application/json",)
    if kind not in wanted:
        raise StudioError("content_type", f"send the body as Content-Type: {wanted[0]}")


# The token


def cookie_name(headers: Headers) -> str:
    """Return the name of the cookie with the token: it contains the port under which the browser reaches the studio.

    Cookies belong to a host, whatever the port, so studios on one host would replace each other's.
    """
    port = _parts_of(headers["host"])[1]
    return f"penstock-studio-{port}" if port else "penstock-studio"


def _check_token(headers: Headers, token: str) -> None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    given = value.strip() if scheme.lower() == "bearer" else _cookie(headers.get("cookie", ""), cookie_name(headers))
    if not _same(given, token):
        raise StudioError("token", "open the studio by the URL that it printed at its start, with its token")


def _same(given: str, token: str) -> bool:
    """Compare in constant time, so that the time says nothing about how much of a guess is right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())


def _cookie(header: str, wanted: str) -> str:
    """Return the value of a cookie; others of the same host may have any form, so `http.cookies` does not do."""
    pairs = (each.strip().partition("=") for each in header.split(";"))
    return next((value for name, _, value in pairs if name == wanted), "")


def _signed_in(scope: Scope, name: str, token: str) -> RedirectResponse:
    """Move the token into a cookie that no script can read, and out of the address."""
    rest = {key: value for key, value in parse_qs(scope["query_string"].decode("latin-1")).items() if key != "token"}
    answer = RedirectResponse(f"/?{urlencode(rest, doseq=True)}" if rest else "/", 303)
    secure = scope.get("scheme") == "https"
    answer.set_cookie(name, token, httponly=True, samesite="strict", path="/", secure=secure)
    return answer
