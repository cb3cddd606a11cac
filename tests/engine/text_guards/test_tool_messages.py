"""All parts of a tool's message are the tool's: guards read them as its results, not as what a user wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import Message, PIIDetector, Workflow
from penstock.engine import ImagePart, TextPart
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.formats import google

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Scanned, TextWindow

MESSAGES = [
    Message.user("Mail ann@corp.org."),
    Message.tool([TextPart("Mail bob@co"), TextPart("rp.org.", {"own": "eve@corp.org"})]),
]


class Kinds(TextGuard):
    """Notes the kind of each window."""

    id = "kinds"

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def scan(self, window: TextWindow, ctx: AnyContext) -> Scanned:
        """Find nothing."""
        del ctx
        self.seen.add((window.text, window.kind))
        return (), len(window.text)


def test_the_text_of_a_tool_is_of_its_kind() -> None:
    """Detectors have thresholds by this kind. Neighbouring texts are read as one, and each alone."""
    guard = Kinds()
    Workflow("w").then(guard).check_sync([*MESSAGES, Message.tool("Done.")])
    assert {kind for text, kind in guard.seen if "ann" in text} == {"text"}
    assert {text for text, kind in guard.seen if kind == "tool"} == {
        "Mail bob@co",
        "rp.org.",
        "Mail bob@corp.org.",
        "eve@corp.org",
        "Done.",
    }


@pytest.mark.parametrize(
    ("parts", "found"), [(["text"], ["[EMAIL]", "bob@corp.org"]), (["tool"], ["ann@corp.org", "[EMAIL]"])]
)
def test_it_is_chosen_as_the_tools(parts: list[str], found: list[str]) -> None:
    """``parts=["tool"]`` reads it, ``parts=["text"]`` does not."""
    guard = PIIDetector(redaction_method="placeholder", parts=parts)
    messages = [MESSAGES[0], Message.tool([TextPart("Mail bob@co"), TextPart("rp.org.")])]
    outcome = Workflow("w").then(guard).check_sync(messages)
    said = ["".join(part.text for part in message.parts if isinstance(part, TextPart)) for message in outcome.messages]
    assert said == [f"Mail {one}." for one in found]


@pytest.mark.parametrize(("parts", "blocked"), [(["image"], False), (["tool"], True), (None, True)])
def test_its_pictures_are_the_tools(parts: list[str] | None, blocked: bool) -> None:
    """A guard that reads tools stops at a picture that it cannot read; one that reads users' pictures does not."""
    guard = PIIDetector(parts=parts)
    message = Message.tool([ImagePart(data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB", media_type="image/png")])
    assert Workflow("w").then(guard).check_sync([MESSAGES[0], message]).blocked is blocked


def test_text_beside_a_function_response_is_the_functions() -> None:
    """The format of Google has contents of the role ``function``; they are written as they were read."""
    contents: list[Any] = [
        {"role": "function", "parts": [{"text": "a"}, {"functionResponse": {"name": "f", "response": {}}}]}
    ]
    messages = google.read(contents)
    assert [message.role for message in messages] == ["tool", "tool"]
    assert google.write(messages) == contents
