"""Whether Penstock's own JSON form loses nothing, and refuses what it does not know."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import (
    PART_TYPES,
    ROLES,
    TOOL_STATES,
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.formats import native

TYPES = "text, reasoning, image, audio, file, tool, source, data, step-start, unknown"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(st.text(max_size=3), json_values, max_size=2)
words = st.text(max_size=3)
maybe = st.none() | words
parts = st.one_of(
    st.builds(TextPart, words, objects),
    st.builds(ReasoningPart, words, objects),
    st.builds(ImagePart, maybe, maybe, maybe, objects),
    st.builds(AudioPart, maybe, maybe, maybe, maybe, objects),
    st.builds(FilePart, maybe, maybe, maybe, maybe, maybe, objects),
    st.builds(ToolPart, words, words, json_values, st.sampled_from(TOOL_STATES), json_values, maybe, objects),
    st.builds(SourcePart, maybe, maybe, maybe, objects),
    st.builds(DataPart, words, json_values, objects),
    st.builds(StepStartPart, objects),
    st.builds(UnknownPart, json_values, objects),
)
messages = st.builds(
    Message,
    st.sampled_from(ROLES),
    st.lists(parts, max_size=3),
    words,
    st.none() | st.datetimes(timezones=st.just(UTC)),
    maybe,
    maybe,
    objects,
)


@given(st.lists(messages, max_size=3))
def test_any_messages_survive_json(given: list[Message]):
    """Every part, every field."""
    assert native.read(json.loads(json.dumps(native.write(given)))) == tuple(given)


def test_fields_that_hold_their_default_are_left_out():
    """The type never is."""
    message = Message.user([TextPart("hi"), StepStartPart()], created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert native.write([message]) == [
        {
            "role": "user",
            "parts": [{"type": "text", "text": "hi"}, {"type": "step-start"}],
            "created_at": "2026-01-01T00:00:00.000Z",
        }
    ]


def test_the_schema_describes_every_part():
    """Told apart by type; unknown fields are refused."""
    schema = native.json_schema()
    assert {"Message", *(kind.__name__ for kind in PART_TYPES)} <= {schema["title"], *schema["$defs"]}
    assert schema["properties"]["parts"]["items"]["discriminator"]["propertyName"] == "type"
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        (3, "messages[0]: expected a message, not int"),
        ({}, "messages[0].role: it is missing"),
        (
            {"role": "user", "color": 1},
            "messages[0]: it has a field that does not exist; what has no field belongs in metadata",
        ),
        (
            {"role": "user", "parts": [3]},
            "messages[0].parts[0]: expected an object, not int",
        ),
        (
            {"role": "user", "parts": [{"type": "novelty"}]},
            f"messages[0].parts[0]: expected a type that is one of {TYPES}; other parts go into an unknown part's raw",
        ),
        ({"role": "user", "parts": [{"type": "text"}]}, "messages[0].parts[0].text: it is missing"),
        (
            {"role": "user", "parts": [{"type": "text", "text": 3}]},
            "messages[0].parts[0].text: expected a valid string, not int",
        ),
        ({"role": "boss"}, "messages[0].role: expected 'system', 'user', 'assistant' or 'tool', not str"),
    ],
)
def test_a_malformed_message_is_refused_with_its_place(item: Any, problem: str):
    """What was expected where, and the type that was found; never the text."""
    with pytest.raises(MessageError) as caught:
        native.read([item])
    assert str(caught.value) == problem
