"""A model that asks the fake provider, with a key that must never show; it knows no test."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock import OpenAICompatibleModel
from penstock.testing.provider import FakeProvider

KEY = "sk-Secret0Key1That2Must3Not4Show"

Making = Callable[..., OpenAICompatibleModel]


@pytest.fixture
def asking() -> Making:
    """Return a function that makes a model of a fake provider."""

    def make(server: FakeProvider, name: str = "m", **options: Any) -> OpenAICompatibleModel:
        return OpenAICompatibleModel(name, **{"base_url": server.url, "api_key": KEY, **options})

    return make


def everything_in(error: BaseException) -> str:
    """Return all texts of an error, its causes and attributes included."""
    texts: list[str] = []
    found: BaseException | None = error
    while found is not None:
        texts += [str(found), repr(found), repr(getattr(found, "__dict__", {}))]
        found = found.__cause__ or found.__context__
    return "\n".join(texts)
