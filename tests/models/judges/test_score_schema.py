"""What a provider is told of a score."""

from __future__ import annotations

from pydantic import TypeAdapter

from penstock.models.judges.scores import Score


def test_its_bounds_are_json_schemas_own() -> None:
    """A provider that is strict about schemas refuses keywords that it does not know."""
    assert TypeAdapter(Score).json_schema() == {"maximum": 1, "minimum": 0, "type": "number"}
