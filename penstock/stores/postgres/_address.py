"""Where a server is, read from its URL: what may be shown of it, without user or password; it connects to nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:@/\[\]]*)(?::[0-9]{1,5})?")
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class _Hidden:
    """Stands for a value that is not to be shown."""

    def __repr__(self) -> str:
        return "a text that is not shown here (it may hold a password)"


def check_schema(owner: str, schema: object) -> None:
    """Refuse what cannot name a schema.

    Raises:
        OptionError: it is none of letters, digits and ``_``, at most 63, or begins with what is PostgreSQL's own.
    """
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema) or schema.lower().startswith("pg_"):
        allowed = "a name of up to 63 ASCII letters, digits and _ that begins with neither a digit nor pg_"
        raise OptionError(owner, "schema", schema, allowed)


def shown(owner: str, url: object) -> str:
    """Return the hosts and the database of a URL such as ``postgresql://user:password@host:5432/database``.

    Raises:
        OptionError: it is no such URL. The error does not show it: what is misread may be a password.
    """
    if not isinstance(url, str):
        _refuse(owner)
    try:
        parts = urlsplit(url)
    except ValueError:
        _refuse(owner)
    hosts = parts.netloc.rpartition("@")[2]
    if not _is_read_rightly(parts, hosts):
        _refuse(owner)
    named = parse_qs(parts.query)
    database = unquote(parts.path[1:]) or next(iter(named.get("database", named.get("dbname", []))), "")
    return f"{hosts or ','.join(named.get('host', [])) or 'the default host'}/{database}"


def _is_read_rightly(parts: SplitResult, hosts: str) -> bool:
    """Tell whether no piece of an unquoted password can have come to stand where hosts and database are."""
    is_url = parts.scheme in {"postgresql", "postgres"} and not parts.fragment
    return is_url and "@" not in parts.path and all(_HOST.fullmatch(host) for host in hosts.split(","))


def _refuse(owner: str) -> NoReturn:
    allowed = "a URL such as postgresql://user:password@host:5432/database, its password percent-encoded"
    raise OptionError(owner, "url", _Hidden(), allowed) from None
