"""`OpenAICompatibleEmbedder`: embeddings by OpenAI's protocol."""

from __future__ import annotations

import base64
import math
import struct
from itertools import islice
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import freeze, is_items, is_mapping, thaw
from penstock.engine.values.model import Usage
from penstock.models.openai.failures import MOST_OF_A_FAILURE, is_failure
from penstock.models.openai.http import USUAL, EndpointClient, EndpointOptions, TimeLimits, close_pieces, raw_pieces
from penstock.models.openai.reading import usage_from
from penstock.models.openai.unpacking import UnpackingError
from penstock.models.openai.wire import object_of, objects_of, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import httpx

    from penstock.engine.values.frozen import Value, Values
    from penstock.models.openai.http import ApiKey, Deadline
    from penstock.models.openai.providers import Provider
    from penstock.models.openai.wire import Json

_FLOAT_BYTES = 4
MOST_OF_VECTORS = 256 * 1024 * 1024
"""The default limit of the answer to one batch, unpacked, in bytes: 2,048 vectors of 4,096 numbers fit."""

_MOST_OF_A_BATCH = 2048


class OpenAICompatibleEmbedder(EndpointClient):
    """Turns texts into vectors with a provider's model, in batches.

    Needs the extra ``openai``. Tasks can share it; each event loop has its own connections, which stay open until the
    embedder is closed (``aclose``, or ``async with``).

    Attributes:
        name: the provider and the model, for people and records: ``openai/text-embedding-3-small``.
        model: the provider's name of the model.
        provider: the provider.
        usage: the tokens of all requests so far, as far as the provider reports them.
    """

    __slots__ = ("_batch", "_largest", "_options", "_together", "usage")

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        provider: str | Provider | None = None,
        dimensions: int | None = None,
        batch_size: int = 128,
        concurrency: int = 4,
        options: Values | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        timeout: TimeLimits = USUAL,
        proxy: str | None = None,
        verify: bool = True,
        most_of_an_answer: int = MOST_OF_VECTORS,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """Find the provider, its address and the key. Options that are not explained here: see `OpenAICompatibleModel`.

        Args:
            name: ``<provider>/<model>``; if ``base_url`` or ``provider`` is given, the model's name alone.
            base_url: the address before ``/embeddings``; None: the provider's.
            api_key: the key, or a function that returns it; None: the one in the environment.
            provider: the provider whose rules apply to your own base URL.
            dimensions: the length of the vectors, 1 or more, if the model supports a choice; None: the model's own.
            batch_size: how many texts are sent in one request, 1 to 2,048. Default: 128.
            concurrency: how many requests one call makes at the same time, 1 or more. Default: 4.
            options: further fields of the request, such as ``input_type``, or ``encoding_format="base64"``.
            headers: further headers of every request.
            query: the query of every address. Put no secrets here: addresses are logged.
            timeout: the time limits of each batch.
            proxy: the address of a proxy; None: as the environment says.
            verify: whether TLS certificates are checked.
            most_of_an_answer: the largest answer to one batch, in bytes, 1 or more. Default: 256 MiB.
            client: an httpx client to use. It is not closed with the embedder.

        Raises:
            OptionError: the provider is unknown, the key is missing, or an option has a value that is not allowed.
            MissingExtraError: the extra ``openai`` is not installed.
        """
        what = type(self).__name__
        if not 1 <= batch_size <= _MOST_OF_A_BATCH:
            raise OptionError(what, "batch_size", batch_size, f"a number of texts from 1 to {_MOST_OF_A_BATCH}")
        if concurrency < 1:
            raise OptionError(what, "concurrency", concurrency, "a number of requests, 1 or more")
        if dimensions is not None and dimensions < 1:
            raise OptionError(what, "dimensions", dimensions, "a number of dimensions, 1 or more")
        if most_of_an_answer < 1:
            raise OptionError(what, "most_of_an_answer", most_of_an_answer, "a number of bytes, 1 or more")
        reach = EndpointOptions(provider, base_url, api_key, headers, query, timeout, proxy, verify, client)
        super().__init__(name, reach)
        chosen = {} if dimensions is None else {"dimensions": dimensions}
        self._options: Values = freeze({**chosen, **(options or {})})
        self._batch = batch_size
        self._together = concurrency
        self._largest = most_of_an_answer
        self.usage = Usage(requests=0)

    def body(self, texts: Sequence[str]) -> Json:
        """Return the body of the request for a batch of texts, without headers."""
        return {"model": self.model, "input": list(texts), **thaw(dict(self._options))}

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order, all of one length. An empty list makes no request.

        Raises:
            ModelError: the request failed, or the answer does not hold one vector for each text.
            UsageError: ``texts`` is a single str, whose letters would be embedded.
        """
        if isinstance(texts, str):
            raise UsageError("embed takes a list of texts; put a single text into a list")
        batches = list(_batches(texts, self._batch))
        found: list[list[list[float]]] = [[] for _ in batches]
        if len(batches) == 1:
            return await self._embedded(batches[0])
        problems: list[Exception] = []
        limit = anyio.CapacityLimiter(self._together)

        async def one(index: int) -> None:
            async with limit:
                try:
                    found[index] = await self._embedded(batches[index])
                except Exception as error:  # noqa: BLE001 - raised below: callers expect no exception group
                    problems.append(error)
                    tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for index in range(len(batches)):
                tasks.start_soon(one, index)
        if problems:
            raise problems[0]
        vectors = [vector for batch in found for vector in batch]
        self._check_lengths(vectors)
        return vectors

    async def _embedded(self, texts: Sequence[str]) -> list[list[float]]:
        http = self._http
        deadline = http.deadline()
        async with http.answer("embeddings", self.body(texts), deadline) as answer:
            body = await self._read(answer, deadline)
            text = body.decode("utf-8", "replace")
            item, status = parsed(text), answer.status_code
            if is_failure(status):
                raise http.failures.of_status(status, answer.headers, text, item)
            if object_of(item).get("error"):
                raise http.failures.of_error(status, answer.headers, text, item)
            self.usage += Usage(**usage_from(object_of(object_of(item).get("usage"))))
            vectors = _vectors(item, len(texts))
            if vectors is None:
                problem = f"it was asked for {len(texts)} vectors, but returned something else"
                raise http.failures.made(problem, status=status, headers=answer.headers, body=text)
        self._check_lengths(vectors)
        return vectors

    async def _read(self, answer: httpx.Response, deadline: Deadline) -> bytes:
        http = self._http
        unpacker, body = http.unpacker(answer), bytearray()
        pieces = raw_pieces(answer)
        try:
            while packed := await deadline.keep(anext(pieces, b"")):
                for piece in unpacker.feed(packed):
                    body += piece
                    if is_failure(answer.status_code) and len(body) >= MOST_OF_A_FAILURE:
                        return bytes(body)
                    if len(body) > self._largest:
                        problem = f"the answer has more than {self._largest} bytes; most_of_an_answer= allows more"
                        raise http.failures.made(problem, status=answer.status_code)
        except UnpackingError as error:
            raise http.failures.made(error.problem, status=answer.status_code) from error
        finally:
            await close_pieces(answer, pieces)
        return bytes(body)

    def _check_lengths(self, vectors: list[list[float]]) -> None:
        lengths = sorted({len(vector) for vector in vectors})
        if len(lengths) > 1:
            raise self._http.failures.made(f"its vectors have different lengths: {', '.join(map(str, lengths))}")


def _batches(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(texts)
    while batch := list(islice(rest, size)):
        yield batch


def _vectors(item: Value, count: int) -> list[list[float]] | None:
    """Return the vectors of an answer in the order of the texts; None unless there is one valid vector for each."""
    rows = objects_of(object_of(item).get("data"))
    if not is_mapping(item) or len(rows) != count:
        return None
    made: dict[int, list[float]] = {}
    for place, row in enumerate(rows):
        vector = _vector(row.get("embedding"))
        index = row.get("index", place)
        if vector is None or not isinstance(index, int):
            return None
        made[index] = vector
    return [made[index] for index in range(count)] if made.keys() == set(range(count)) else None


def _vector(given: Value) -> list[float] | None:
    """Return a vector from numbers, or from base64 of little-endian 32-bit floats; None if it is invalid."""
    if isinstance(given, str):
        try:
            data = base64.b64decode(given, validate=True)
        except ValueError:
            return None
        count, rest = divmod(len(data), _FLOAT_BYTES)
        found: list[Value] = [] if rest else list(struct.unpack(f"<{count}f", data))
    else:
        found = list(given) if is_items(given) else []
    sound = all(isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) for x in found)
    return [float(x) for x in found] if found and sound else None
