"""A structured answer that a guard changed says so, and is not taken for a mistake of the model's."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from penstock import Agent, PIIDetector
from penstock.testing import ScriptedModel


class Person(BaseModel):
    """A person, with numbers within a list, too."""

    name: str
    phone: int
    phones: list[int] = []
    mail: str | None = None


async def answered(given: dict[str, Any], form: type[BaseModel] = Person, **options: Any) -> tuple[Any, int]:
    """Return the result, and how often the model was asked."""
    model = ScriptedModel([{"object": given}], repeat_last=True)
    agent = Agent(model, processors=[PIIDetector(**options)], output_type=form)
    return await agent.generate("Tell me.", records=True), len(model.requests)


async def test_a_number_that_was_hidden_is_zero_where_the_schema_needs_one() -> None:
    """The model is not asked again; the result and the record say that guards changed the answer, and where."""
    result, asked = await answered({"name": "Ann", "phone": 4045550171, "phones": [1, 4045550172], "mail": None})
    assert (result.status, asked) == ("success", 1)
    assert result.object == Person(name="Ann", phone=0, phones=[1, 0])
    assert result.object_edited
    assert ("phone", "phones[1]") in [record.details.get("edited") for record in result.records]


async def test_a_text_that_was_hidden_fits_and_is_told() -> None:
    """An answer without a finding is not edited."""
    result, asked = await answered({"name": "ann@corp-mail.org", "phone": 1})
    assert (result.object.phone, asked, result.object_edited) == (1, 1, True)
    assert "ann@" not in result.object.name
    result, _ = await answered({"name": "Ann", "phone": 1})
    assert not result.object_edited


async def test_an_object_that_no_longer_fits_is_blocked_once_with_the_reason() -> None:
    """Another attempt of the model would be changed alike."""

    class Card(BaseModel):
        phone: int
        mail: str = Field(pattern=r"^[^@ ]+@[^@ ]+$")

    result, asked = await answered({"phone": 1, "mail": "ann@corp-mail.org"}, Card, redaction_method="placeholder")
    assert (result.status, asked) == ("blocked", 1)
    assert "a guard changed the answer" in result.tripwire.reason
    assert result.tripwire.metadata["edited"]


@pytest.mark.parametrize("phone", [None, "none"])
async def test_a_mistake_of_the_model_is_still_one(phone: Any) -> None:
    """It is asked again."""
    _, asked = await answered({"name": "Ann", "phone": phone})
    assert asked > 1
