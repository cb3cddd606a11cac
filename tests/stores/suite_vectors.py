"""What every store of vectors must do; it knows no store."""

import math

import pytest

from penstock import StorageError
from penstock.engine import UsageError
from penstock.engine.values.stored import VectorHit
from tests.stores.made import entry, found


def cosine(one: list[float], other: list[float]) -> float:
    """Return the cosine of the angle between two vectors."""
    product = sum(x * y for x, y in zip(one, other, strict=True))
    return product / math.hypot(*one) / math.hypot(*other)


class VectorsSuite:
    """Vectors: kept by index, found by the cosine, within a thread or a resource."""

    async def test_an_index_that_is_not_there_has_none(self, store):
        """No error."""
        assert await store.query_vectors("i", [1.0, 0.0], limit=5) == ()
        assert await store.delete_vectors("i", ["m"]) == 0

    async def test_the_nearest_come_first(self, store):
        """By the cosine: length does not count."""
        await store.upsert_vectors("i", [entry("a", [0, 5]), entry("b", [1, 0]), entry("c", [100, 100])])
        hits = await store.query_vectors("i", [2, 1], limit=2)
        assert found(hits) == ["c", "b"]
        assert hits[0] == VectorHit("c", "c", "t", "r", hits[0].score)
        assert [hit.score for hit in hits] == pytest.approx([cosine([2, 1], [1, 1]), cosine([2, 1], [1, 0])], abs=1e-6)

    async def test_scores_are_the_cosine_from_minus_one_to_one(self, store):
        """Opposite vectors have -1."""
        await store.upsert_vectors("i", [entry("a", [0.1, 0.2, 0.3]), entry("b", [-0.1, -0.2, -0.3])])
        hits = await store.query_vectors("i", [0.1, 0.2, 0.3], limit=9)
        assert [hit.score for hit in hits] == pytest.approx([1, -1], abs=1e-6)
        assert all(-1 <= hit.score <= 1 for hit in hits)

    async def test_of_equal_ones_the_id_decides(self, store):
        """Whatever the order in which they came."""
        names = [f"e{number * 7 % 40:02}" for number in range(40)]
        vector = [0.3, 0.1, 0.7]
        for name in names:
            await store.upsert_vectors("i", [entry(name, vector)])
        assert found(await store.query_vectors("i", [1, 0, 0], limit=5)) == sorted(names)[:5]

    async def test_what_is_found_is_what_a_loop_finds(self, store):
        """Three hundred vectors in every direction."""
        vectors = {
            f"e{number:03}": [math.sin(number * 7919 + place**2) for place in range(24)] for number in range(300)
        }
        await store.upsert_vectors("i", [entry(name, vector) for name, vector in vectors.items()])
        query = [math.cos(place**3) for place in range(24)]
        best = sorted(vectors, key=lambda name: -cosine(query, vectors[name]))[:7]
        hits = await store.query_vectors("i", query, limit=7)
        assert found(hits) == best
        assert [hit.score for hit in hits] == pytest.approx([cosine(query, vectors[name]) for name in best], abs=1e-6)

    async def test_the_least_score_may_be_said(self, store):
        """What is below it is not there."""
        await store.upsert_vectors("i", [entry("a", [1, 0]), entry("b", [1, 1]), entry("c", [0, 1])])
        assert found(await store.query_vectors("i", [1, 0], limit=9, threshold=0.5)) == ["a", "b"]

    async def test_those_of_a_thread_or_a_resource_may_be_asked_for(self, store):
        """However many others are nearer."""
        others = [entry(f"o{number}", [1, 0], thread="u", resource="s") for number in range(50)]
        mine = [entry("a", [0, 1]), entry("b", [0.1, 1]), entry("c", [-1, 0], thread="v")]
        await store.upsert_vectors("i", [*others, *mine])
        assert found(await store.query_vectors("i", [1, 0], limit=9, thread_id="t")) == ["b", "a"]
        assert found(await store.query_vectors("i", [1, 0], limit=9, resource_id="r")) == ["b", "a", "c"]
        assert found(await store.query_vectors("i", [1, 0], limit=9, thread_id="v", resource_id="r")) == ["c"]
        assert await store.query_vectors("i", [1, 0], limit=9, thread_id="v", resource_id="s") == ()
        assert await store.query_vectors("i", [1, 0], limit=9, thread_id="none") == ()

    async def test_an_entry_of_the_same_id_takes_its_place(self, store):
        """Its vector, message and thread are the new ones."""
        await store.upsert_vectors("i", [entry("a", [1, 0]), entry("b", [0, 1])])
        await store.upsert_vectors("i", [entry("a", [0, 1], message="m2", thread="u")])
        hits = await store.query_vectors("i", [0, 1], limit=9)
        assert [(hit.id, hit.message_id, hit.thread_id) for hit in hits] == [("a", "m2", "u"), ("b", "b", "t")]
        assert await store.query_vectors("i", [1, 0], limit=9, threshold=0.5) == ()

    async def test_one_id_twice_at_once_is_one_entry(self, store):
        """The last of them counts."""
        await store.upsert_vectors("i", [entry("a", [1, 0]), entry("a", [0, 1])])
        (hit,) = await store.query_vectors("i", [0, 1], limit=9)
        assert hit.score == pytest.approx(1)

    async def test_indexes_are_apart(self, store):
        """Names, lengths and entries are each index's own."""
        await store.upsert_vectors("i", [entry("a", [1, 0])])
        await store.upsert_vectors('other; DROP TABLE "x"', [entry("a", [0, 0, 1])])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["a"]
        assert found(await store.query_vectors('other; DROP TABLE "x"', [0, 0, 1], limit=9)) == ["a"]

    async def test_vectors_of_messages_are_deleted_from_one_index(self, store):
        """All that are of the messages, and they are counted."""
        await store.upsert_vectors("i", [entry("a#0", [1, 0], message="a"), entry("a#1", [1, 0], message="a")])
        await store.upsert_vectors("i", [entry("b", [1, 0])])
        await store.upsert_vectors("j", [entry("a#0", [1, 0], message="a")])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["a#0", "a#1", "b"]
        assert await store.delete_vectors("i", ["a", "none"]) == 2
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["b"]
        assert found(await store.query_vectors("j", [1, 0], limit=9)) == ["a#0"]
        await store.upsert_vectors("i", [entry("c", [1, 0])])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["b", "c"]

    @pytest.mark.parametrize(
        "vector",
        [[1, 0, 0], [], [math.nan, 0], [math.inf, 0], [1e300, 0]],
        ids=["another length", "empty", "no number", "infinite", "infinite once it is stored"],
    )
    async def test_a_vector_that_cannot_be_is_refused_with_all_others(self, store, vector):
        """All or none."""
        await store.upsert_vectors("i", [entry("a", [1, 0])])
        with pytest.raises(StorageError):
            await store.upsert_vectors("i", [entry("b", [1, 0]), entry("c", vector)])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["a"]

    async def test_nothing_to_store_is_nothing(self, store):
        """No index is made of it."""
        await store.upsert_vectors("i", [])
        await store.upsert_vectors("i", [entry("a", [1, 0])])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["a"]

    async def test_the_vectors_of_a_new_index_have_one_length(self, store):
        """The first one's; nothing is made of others."""
        with pytest.raises(StorageError):
            await store.upsert_vectors("i", [entry("a", [1, 0]), entry("b", [1, 0, 0])])
        await store.upsert_vectors("i", [entry("a", [1, 0, 0])])
        assert found(await store.query_vectors("i", [1, 0, 0], limit=9)) == ["a"]

    @pytest.mark.parametrize("vector", [[1, 0, 0], [], [math.nan, 0]], ids=["another length", "empty", "no number"])
    async def test_a_query_that_cannot_be_is_an_error(self, store, vector):
        """Another embedder's vectors do not silently find nothing."""
        await store.upsert_vectors("i", [entry("a", [1, 0])])
        with pytest.raises(StorageError):
            await store.query_vectors("i", vector, limit=9)

    async def test_nothing_is_near_to_a_vector_of_zeros(self, store):
        """It has no direction: it finds none, and none finds it."""
        await store.upsert_vectors("i", [entry("a", [0, 0]), entry("b", [1, 0])])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["b"]
        assert await store.query_vectors("i", [0, 0], limit=9) == ()

    async def test_a_number_of_hits_that_cannot_be_is_refused(self, store):
        """The caller's mistake."""
        with pytest.raises(UsageError):
            await store.query_vectors("i", [1, 0], limit=0)
