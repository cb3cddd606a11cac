"""Requests that wait for people in PostgreSQL: each body in the table fits the published schema, and hides secrets."""

import json
from typing import Any

import asyncpg
import pytest

from penstock import Agent, PIIDetector
from penstock.stores.postgres import PostgresStorage
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from tests.stores.postgres.servers import of
from tests.workflows.review.judging import Judges
from tests.workflows.review.made import CALLS, SECRET, Shop, agent
from tests.workflows.review.schema_check import VALIDATOR


class Read(PostgresStorage):
    """Tables whose bodies are read with another connection after each save."""

    url: str
    where: str

    async def save_run(self, run: Any) -> Any:
        saved = await super().save_run(run)
        connection = await asyncpg.connect(self.url)
        for row in await connection.fetch(of(self.where, "SELECT status, body FROM SCHEMA.runs")):
            self.bodies.append((row["status"], row["body"]))
        await connection.close()
        return saved

    @property
    def bodies(self) -> list[tuple[str, str]]:
        """The status and the text of each body that was found."""
        return self.__dict__.setdefault("found", [])


def opened(server: Any, schema: str) -> Read:
    """Open the tables."""
    store = Read(server.url, schema=schema)
    store.url, store.where = server.url, schema
    return store


@pytest.mark.parametrize("from_start", [False, True])
async def test_each_body_in_the_table_fits_the_schema(server: Any, schema: str, *, from_start: bool) -> None:
    """Of a call that waits, is approved, goes on and ends, with a judge."""
    judges, shop = Judges(), Shop()
    async with opened(server, schema) as store:
        reviews = Reviews(store, from_start=from_start)
        asked = await agent(reviews, [CALLS], shop).generate(f"Refund order 7, I am {SECRET}")
        await reviews.approve(asked.run_id, by="eve")
        done = await agent(reviews, ["Done."], shop).resume(asked.run_id)
        again = await agent(reviews, ["So."], shop, processors=[judges.guard()]).generate("Hi")
        assert (done.status, again.status, len(shop.refunded)) == ("success", "success", 1)
    _check(store, {"waiting", "running", "ended"})


async def test_an_agent_within_an_agent_waits_in_the_table(server: Any, schema: str) -> None:
    """Both go on in another process."""
    shop = Shop()
    call = {"tool_calls": [{"name": "clerk", "args": {"prompt": f"Refund order 7 for {SECRET}"}}]}

    def boss(store: Read, outer: list[Any], inner: list[Any]) -> Agent:
        clerk = agent(store, inner, shop, id="clerk")
        return Agent(
            ScriptedModel(outer), id="boss", tools=[clerk.as_tool()], processors=[PIIDetector()], reviews=store
        )

    async with opened(server, schema) as store:
        asked = await boss(store, [call], [CALLS]).generate(f"I am {SECRET}")
        assert asked.status == "suspended"
        await Reviews(store).approve(asked.run_id, by="eve")
        done = await boss(store, ["Done."], ["It is refunded."]).resume(asked.run_id)
        assert (done.status, len(shop.refunded)) == ("success", 1)
    _check(store, {"waiting", "running", "ended"})


def _check(store: Read, statuses: set[str]) -> None:
    assert {status for status, _ in store.bodies} == statuses
    for _, body in store.bodies:
        VALIDATOR.validate(json.loads(body))
        assert SECRET not in body
