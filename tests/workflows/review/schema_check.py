"""A fixture that checks each stored run of a test against the published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from penstock import InMemoryStorage, SQLiteStorage
from penstock.engine.values.frozen import thaw
from penstock.stores.postgres import PostgresStorage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.values.stored import StoredRun

PUBLISHED = Path(__file__).parents[3] / "docs" / "review.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text("utf-8")))


def check_body(run: StoredRun) -> None:
    """Raise if the body of a run does not fit the schema."""
    VALIDATOR.validate(json.loads(json.dumps(thaw(dict(run.body)))))


@pytest.fixture(autouse=True)
def stored_runs_fit_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check each run that is stored."""
    for store in (InMemoryStorage, SQLiteStorage, PostgresStorage):
        monkeypatch.setattr(store, "save_run", _checked(store.save_run))


def _checked(save: Callable[..., Awaitable[StoredRun]]) -> Callable[..., Awaitable[StoredRun]]:
    async def save_run(self: object, run: StoredRun) -> StoredRun:
        check_body(run)
        return await save(self, run)

    return save_run
