"""`PIIDetector` hides what its detector finds: the same places, whatever replaces them, whole and in pieces."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, cast

import pytest

from penstock import PIIDetector, Workflow
from penstock.detection.personal_data.detector import EMBEDDED, PersonalData
from tests.detection.personal_data.numbers import texts
from tests.laws import seeds

if TYPE_CHECKING:
    from penstock.processors.guards.pii_action import Method

TEXTS = [*texts()]
PARTS = 4
METHODS = ("mask", "hash", "remove", "placeholder", "token")


@pytest.mark.parametrize("method", seeds(METHODS))
@pytest.mark.parametrize("types", [pytest.param(None, marks=pytest.mark.rest), EMBEDDED], ids=["default", "all"])
@pytest.mark.parametrize("part", seeds(range(PARTS)))
def test_a_records_edits_stand_where_the_detector_finds(method: str, types: tuple[str, ...] | None, part: int) -> None:
    """With each method and each choice of types, one text after another."""
    guard = PIIDetector(detection_types=types, redaction_method=cast("Method", method))
    workflow = Workflow("w").then(guard)
    for text in TEXTS[part::PARTS]:
        (record,) = workflow.check_sync(text, records=True).records
        assert [(edit.start, edit.end) for _, edit in record.edits] == places(text, guard), text


@pytest.mark.parametrize("part", seeds(range(PARTS)))
def test_a_placeholder_names_the_type_that_the_detector_gives(part: int) -> None:
    """A phone number is no card and the other way round."""
    guard = PIIDetector(detection_types=EMBEDDED, redaction_method="placeholder")
    workflow = Workflow("w").then(guard)
    for text in TEXTS[part::PARTS]:
        assert workflow.check_sync(text).text == hidden(text, guard)


def test_a_stream_hides_what_the_whole_hides() -> None:
    """In pieces of any length, one text or several after each other."""
    source = random.Random(7)  # noqa: S311 - the same each time
    for _ in range(40):
        text = "\n".join(source.sample(TEXTS, 6))
        cuts = sorted(source.sample(range(1, len(text)), 9))
        pieces = [text[low:high] for low, high in itertools.pairwise([0, *cuts, len(text)])]
        guard = PIIDetector(detection_types=EMBEDDED, redaction_method="placeholder")
        with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
            assert "".join(chunk.text for chunk in chunks) == hidden(text, guard)


def places(text: str, guard: PIIDetector) -> list[tuple[int, int]]:
    """Return where a guard's detector finds something."""
    return [(one.start, one.end) for one in PersonalData(guard.search.looked.types).find(text)]


def hidden(text: str, guard: PIIDetector) -> str:
    """Return a text with the names of types for what a guard's detector finds."""
    made, at = "", 0
    for one in PersonalData(guard.search.looked.types).find(text):
        made, at = f"{made}{text[at : one.start]}[{one.type.upper()}]", one.end
    return made + text[at:]
