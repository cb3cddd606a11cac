"""The fake provider: its socket, its threads, and what they have seen. What it answers is the routing's."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Self

from penstock.engine.values.errors import UsageError
from penstock.testing.provider.connection import Connection
from penstock.testing.provider.encode import encoded
from penstock.testing.provider.routing import Routing
from penstock.testing.provider.wire import Wire, failing
from penstock.testing.turns import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from penstock.testing.provider.encode import Encoded
    from penstock.testing.provider.received import Received
    from penstock.testing.provider.routing import ScriptItems

_PATIENCE = 5.0  # seconds that a thread has for its end


class FakeProvider:
    """A fake model provider on 127.0.0.1, with real HTTP/1.1 and server-sent events, that answers from a script.

    It serves inside its ``with`` block, from its own threads, so clients can use any event loop, or none::

        with FakeProvider(["Hello", rate_limited(2), Sent("Bye", Wire(cut_at=300))]) as server:
            client = openai.OpenAI(base_url=server.url, api_key="any")

    The endpoints are ``/chat/completions``, ``/embeddings``, ``/moderations`` and ``/models``, below any path.

    Args:
        script: the answers to chat completions, in order: a str, a `Turn` or a mapping of its fields; a `Reply`, which
            is sent unchanged; a `Sent`, which has the faults of a `Wire`; or a callable that gets the request, a
            `Received`, and returns one of those. One callable instead of the list answers all requests.
        repeat_last: whether the last item also answers all further requests. If not, they get a 400.
        embeddings: the same for embeddings. ``embed`` answers for items that are None, and after the last item.
        moderations: the same for moderations, with ``moderate``.
        embed: a function from a text to its vector; by default, texts that share words have similar vectors.
        moderate: a function from a text to its scores by category, 0 to 1, flagged from 0.5. Default: nothing is found.
        models: the names that ``/models`` lists.
        key: the API key that requests must have; None: any key, or none.

    Attributes:
        requests: the requests so far, in the order in which they were read, without keys.
    """

    def __init__(
        self,
        script: ScriptItems = (),
        *,
        repeat_last: bool = False,
        embeddings: ScriptItems = (),
        moderations: ScriptItems = (),
        embed: Callable[[str], Sequence[float]] | None = None,
        moderate: Callable[[str], Mapping[str, float]] | None = None,
        models: Sequence[str] = ("fake-1",),
        key: str | None = None,
    ) -> None:
        others = {"/embeddings": embeddings, "/moderations": moderations}
        self._routing = Routing(
            Script(script, repeat_last=repeat_last),
            others={path: Script(items, repeat_last=False) for path, items in others.items()},
            embed=embed,
            moderate=moderate,
            models=models,
            key=key,
        )
        self.requests: list[Received] = []
        self._problems: list[Exception] = []
        self._listener: socket.socket | None = None
        self._open: dict[socket.socket, threading.Thread] = {}
        self._made = 0
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        """What clients call the base URL: ``http://127.0.0.1:<port>/v1``.

        Raises:
            UsageError: it does not serve.
        """
        if self._listener is None:
            raise UsageError("the server has an address only while it serves: with FakeProvider(…) as server")
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    @property
    def connections(self) -> int:
        """How many connections clients have made so far."""
        return self._made

    @property
    def open_connections(self) -> int:
        """How many of them are open now."""
        with self._changed:
            return len(self._open)

    def wait_until_idle(self, timeout: float = _PATIENCE) -> bool:
        """Wait until no connection is open any more, at most so many seconds; tell whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def __enter__(self) -> Self:
        """Begin to serve."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._acceptor = threading.Thread(
            target=self._accept, args=(self._listener,), name="fake provider", daemon=True
        )
        self._acceptor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End to serve, whatever is still being sent; raise what a callable of the script raised, if all else is well.

        Raises:
            Exception: the first one that a callable of the script raised; its request got a 500.
        """
        self.close()
        if problem is None and self._problems:
            raise self._problems[0]

    def close(self) -> None:
        """End to serve: no thread and no connection is left."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with contextlib.suppress(OSError):  # wakes the acceptor, which sees that nobody listens any more
            socket.create_connection(listener.getsockname(), _PATIENCE).close()
        self._acceptor.join(_PATIENCE)
        listener.close()
        with self._changed:
            left = dict(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in left.values():
            thread.join(_PATIENCE)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            if self._listener is None:
                connection.close()
                return
            with self._changed:
                index, self._made = self._made, self._made + 1
                thread = threading.Thread(target=self._serve, args=(connection, index), daemon=True)
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket, index: int) -> None:
        try:
            Connection(connection, index, self._take)
        finally:
            connection.close()
            with self._changed:
                del self._open[connection]
                self._changed.notify_all()

    def _take(self, request: Received) -> tuple[Encoded, Wire]:
        with self._changed:
            self.requests.append(request)
        try:
            return self._routing.answer(request)
        except Exception as problem:  # noqa: BLE001 - the script's own; it comes out where the server is left
            self._problems.append(problem)
            return encoded(failing(500, f"the script raised {type(problem).__name__}"), Wire()), Wire()
