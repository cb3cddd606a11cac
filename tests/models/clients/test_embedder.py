"""Whether texts become vectors, in order, in batches, over real sockets."""

import base64
import gzip
import struct
import tracemalloc
from typing import Any

import pytest

from penstock import ModelError, OptionError
from penstock.engine import UsageError
from penstock.models import OpenAICompatibleEmbedder
from penstock.testing.provider import FakeProvider, Reply, Sent, Wire, failing, rate_limited, recorded
from tests.models.clients.conftest import KEY, everything_in
from tests.models.clients.exchanges import OWN, SHARED, exchanges, files


def embedder(server: FakeProvider, **options: Any) -> OpenAICompatibleEmbedder:
    """Return an embedder that asks a server."""
    return OpenAICompatibleEmbedder("e", base_url=server.url, api_key=KEY, **options)


def row(index: int, vector: Any) -> dict[str, Any]:
    """Return a vector as a provider sends it."""
    return {"index": index, "embedding": vector}


def of_length(text: str) -> list[float]:
    """Return a vector that tells texts apart."""
    return [float(len(text)), 1.0]


async def test_texts_are_embedded_in_batches_and_in_order() -> None:
    """However many requests it takes; none for no texts."""
    texts = ["x" * length for length in range(1, 12)]
    with FakeProvider(embed=of_length) as server:
        async with embedder(server, batch_size=3, concurrency=2, dimensions=2) as model:
            assert await model.embed(texts) == [[float(n), 1.0] for n in range(1, 12)]
            assert await model.embed([]) == []
    assert sorted(len(request.fields["input"]) for request in server.requests) == [2, 3, 3, 3]
    assert all(request.fields["dimensions"] == 2 for request in server.requests)


async def test_vectors_may_come_in_another_order_and_in_base64() -> None:
    """Their index tells."""
    packed = base64.b64encode(struct.pack("<2f", 0.5, -1.0)).decode()
    with FakeProvider(embeddings=[Reply({"data": [row(1, packed), row(0, [1, 2])]})]) as server:
        async with embedder(server) as model:
            assert await model.embed(["a", "b"]) == [[1.0, 2.0], [0.5, -1.0]]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"data": []},
        {"data": [row(0, [1])]},
        {"data": [row(0, [1]), row(0, [1])]},
        {"data": [row(0, [1]), row(1, [])]},
        {"data": [row(0, [1]), row(1, [True])]},
        {"data": [row(0, [1]), row(1, "?")]},
        {"data": [row(0, [1]), row(1, "QUI=")]},
        {"data": [row(0, [1]), row(1, [1, 2])]},
        "no json",
    ],
)
async def test_other_vectors_than_were_asked_for_are_an_error(answer: Any) -> None:
    """Too few, twice the same, empty, unsound, of different lengths."""
    with FakeProvider(embeddings=[Reply(answer)]) as server:
        async with embedder(server) as model:
            with pytest.raises(ModelError, match=r"2 vectors|different lengths"):
                await model.embed(["a", "b"])


async def test_an_error_of_any_batch_is_the_error() -> None:
    """It comes bare, with its status and wait, and no key; the others are given up."""
    with FakeProvider(embeddings=[failing(500), rate_limited(2), Reply({"error": {"message": KEY}})]) as server:
        async with embedder(server, batch_size=1) as model:
            with pytest.raises(ModelError) as caught:
                await model.embed(["a", "b", "c"])
            assert caught.value.status in {500, 429, 200}
            assert KEY not in everything_in(caught.value)
        assert server.wait_until_idle()


async def test_a_broken_connection_is_an_error_worth_a_retry() -> None:
    """In the middle of an answer."""
    with FakeProvider(embeddings=[Sent(None, Wire(cut_body_at=20))]) as server:
        async with embedder(server) as model:
            with pytest.raises(ModelError) as caught:
                await model.embed(["a"])
    assert caught.value.retryable


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "path", [path for path in files(SHARED) or files(OWN) if "embed" in path.name], ids=lambda path: path.stem
)
async def test_recorded_vectors_are_read(path: Any) -> None:
    """Of OpenAI and Voyage, in base64; or their errors."""
    for exchange in exchanges(path, "/embeddings"):
        asked = dict(exchange["request"])
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        options = {key: value for key, value in asked.items() if key not in ("model", "input")}
        with FakeProvider(embeddings=[recorded(exchange)]) as server:
            model = OpenAICompatibleEmbedder(asked["model"], base_url=server.url, options=options)
            async with model:
                assert model.body(texts) == {**asked, "input": texts}
                if exchange["status"] == 200:
                    vectors = await model.embed(texts)
                    assert len(vectors) == len(texts)
                    assert sum(x * x for x in vectors[0]) == pytest.approx(1, abs=1e-3)
                else:
                    with pytest.raises(ModelError) as caught:
                        await model.embed(texts)
                    assert "nonexistent" in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"), [("batch_size", 0), ("batch_size", 4000), ("concurrency", 0), ("dimensions", 0)]
)
def test_options_that_cannot_be_are_refused(option: str, value: int) -> None:
    """Where the embedder is made."""
    with pytest.raises(OptionError, match=option):
        OpenAICompatibleEmbedder("ollama/e", **{option: value})


async def test_a_text_by_itself_is_refused() -> None:
    """Its letters would be embedded, one by one."""
    with FakeProvider(embed=of_length) as server:
        async with embedder(server) as model:
            with pytest.raises(UsageError, match="a list of texts"):
                await model.embed("text")
        assert not server.requests


def test_it_shows_no_key() -> None:
    """Only where it asks."""
    shown = repr(OpenAICompatibleEmbedder("e", base_url="http://127.0.0.1/v1", api_key=KEY))
    assert shown == "OpenAICompatibleEmbedder('openai-compatible/e', base_url='http://127.0.0.1/v1')"


async def test_the_tokens_of_all_batches_are_summed() -> None:
    """As the provider reports them; counts that are none count nothing."""
    odd = {"data": [{"index": 0, "embedding": [1.0]}], "usage": {"prompt_tokens": float("nan")}}
    with FakeProvider(embeddings=[None, None, Reply(odd)], embed=lambda _: [1.0]) as server:
        async with embedder(server, batch_size=1) as model:
            await model.embed(["one two", "three"])
            await model.embed(["four"])
    assert (model.usage.input_tokens, model.usage.requests) == (3, 3)


@pytest.mark.parametrize("status", [200, 500])
async def test_the_answer_to_a_batch_is_unpacked_up_to_its_limit(status: int) -> None:
    """An error is read no further than errors of models; two layers are refused."""
    packed = gzip.compress(b"x" * 50_000_000, 1)
    for encoding, problem in (("gzip", "most_of_an_answer"), ("gzip, gzip", "compressed 2 times")):
        reply = Reply(packed, status, {"content-encoding": encoding}, "application/json")
        with FakeProvider(embeddings=[reply]) as server:
            async with embedder(server, most_of_an_answer=1_000_000) as model:
                tracemalloc.start()
                with pytest.raises(ModelError) as raised:
                    await model.embed(["a"])
                _, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
        assert (problem in raised.value.problem) == (status == 200 or "2 times" in problem)
        assert peak < 5_000_000
