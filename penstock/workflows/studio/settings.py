"""The settings of one studio: its workflows, its address and its limits."""

from __future__ import annotations

import ipaddress
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one studio.

    Attributes:
        references: the workflows and agents to show beside the presets, as `penstock run` takes them.
        host: the address to listen on.
        port: the port to listen on; 0 for any that is free.
        token: what every request must carry; None for no token.
        allowed_hosts: names under which the studio may be reached, beside addresses and ``localhost``.
        review: the file of rows to label; None: there is none.
        reviews: the store of requests that wait for people, as `penstock review --store` takes it; None: there is none.
        reviewer: the name under which decisions are stored if a request gives none.
        reviewer_is_fixed: whether decisions are stored under no other name.
        may_decide: who may decide, as `penstock review --may-decide` takes it; None: no rule.
        history: the file of the last runs; None for a history in memory.
        keep: how many runs the history keeps.
        upload_limit: how large an uploaded file may be, in bytes.
        text_limit: how large the body of any other request may be, in bytes.
        seconds: how long one run may take; also the longest limit that a request may set.
        load_seconds: how long importing a workflow may take.
        processes: how many runs may be at work at once.
    """

    references: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    review: Path | None = None
    reviews: str | None = field(default=None, repr=False)
    reviewer: str = ""
    reviewer_is_fixed: bool = False
    may_decide: str | None = None
    history: Path | None = None
    keep: int = 200
    upload_limit: int = 256 * MIB
    text_limit: int = 8 * MIB
    seconds: float = 600.0
    load_seconds: float = 30.0
    processes: int = 4


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    address = address_of(host)
    return address is not None and address.is_loopback


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a host is; None for a name."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def default_history() -> Path:
    """Return the file of the last runs of this user."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    else:
        base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "penstock" / "studio.db"
