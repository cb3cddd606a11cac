"""Odd returns of a guard's methods are failures, in streams as in whole texts: nothing passes because of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Edit, TextGuard, Workflow

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "Write to ada@example.com, please. Thank you."
CUTS = (1, 7, 13, 20, len(TEXT))
MAIL = re.compile(r"\w+@[\w.]+\w")


class Mails(TextGuard):
    """Hides addresses; one of its methods may return something else than it should."""

    def __init__(self, method: str = "", odd: Callable[[Any], Any] = lambda usual: usual) -> None:
        self.id = "mails"
        self.method, self.odd = method, odd

    def _returned(self, method: str, usual: Any) -> Any:
        return self.odd(usual) if method == self.method else usual

    def find(self, text, ctx, *, final):  # type: ignore[no-untyped-def]
        """Return the addresses."""
        return self._returned("find", [Edit(*found.span(), "[EMAIL]", "redact") for found in MAIL.finditer(text)])

    def hold(self, text: str, start: int) -> Any:
        """Hold the last word back."""
        return self._returned("hold", max(start, text.rfind(" ") + 1))

    def quiet(self, text: str, start: int, notes: Any, *, final: bool) -> Any:
        """Never know by a glance."""
        return self._returned("quiet", None)

    def scan(self, window: Any, ctx: Any) -> Any:
        """Search."""
        return self._returned("scan", super().scan(window, ctx))

    def act(self, hits: Any, ctx: Any) -> Any:
        """Hide."""
        return self._returned("act", super().act(hits, ctx))

    def changed(self, ctx: Any, edits: Any) -> Any:
        """Make the edits."""
        return self._returned("changed", super().changed(ctx, edits))

    async def judged(self, ctx: Any, texts: Any) -> Any:
        """Judge."""
        return self._returned("judged", await super().judged(ctx, texts))


ODD: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("find", "nothing", lambda usual: None),
    ("find", "a word", lambda usual: ""),
    ("find", "no", lambda usual: False),
    ("find", "a number", lambda usual: 0),
    ("find", "a mapping", lambda usual: {}),
    ("find", "texts", lambda usual: ["ada@example.com"]),
    ("find", "nothings", lambda usual: [None for _ in usual] or [None]),
    ("find", "beyond the text", lambda usual: [Edit(0, 10_000, "", "redact")]),
    ("hold", "nothing", lambda usual: None),
    ("hold", "yes", lambda usual: True),
    ("hold", "a float", float),
    ("hold", "beyond the end", lambda usual: usual + 100),
    ("quiet", "no", lambda usual: False),
    ("quiet", "yes", lambda usual: True),
    ("quiet", "beyond the end", lambda usual: 10_000),
    ("quiet", "a word", lambda usual: "nothing"),
    ("scan", "nothing", lambda usual: None),
    ("scan", "the findings", lambda usual: usual[0]),
    ("scan", "an empty tuple", lambda usual: ()),
    ("scan", "no findings", lambda usual: (None, usual[1])),
    ("scan", "a mapping of findings", lambda usual: ({}, usual[1])),
    ("scan", "no position", lambda usual: (usual[0], None)),
    ("scan", "three things", lambda usual: (*usual, 0)),
    ("scan", "beyond the end", lambda usual: ((), usual[1] + 10_000)),
    ("act", "nothing", lambda usual: None),
    ("act", "no list", lambda usual: []),
    ("act", "one too many", lambda usual: [[], *usual]),
    ("act", "one too many behind", lambda usual: [*usual, []]),
    ("act", "nothings", lambda usual: [None for _ in usual]),
    ("act", "edits, not lists", lambda usual: [edit for edits in usual for edit in edits]),
    ("act", "a word", lambda usual: ""),
    ("act", "a mapping", lambda usual: {0: []}),
    ("act", "words", lambda usual: ["" for _ in usual]),
    ("act", "mappings", lambda usual: [{} for _ in usual]),
    ("act", "floats", lambda usual: [[Edit(0.0, 3.5, "x", "redact")] for _ in usual]),  # type: ignore[arg-type]
    ("act", "no text", lambda usual: [[Edit(0, 3, None, "redact")] for _ in usual]),  # type: ignore[arg-type]
    ("find", "a number for a text", lambda usual: [Edit(0, 3, 7, "redact")]),  # type: ignore[arg-type]
    ("find", "floats", lambda usual: [Edit(0.0, 3.5, "x", "redact")]),  # type: ignore[arg-type]
]
WHOLE: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("changed", "nothing", lambda usual: None),
    ("judged", "nothing", lambda usual: None),
    ("judged", "a list", lambda usual: []),
]


def streamed(guard: TextGuard, size: int) -> tuple[str, bool]:
    """Return the text that leaves a stream in pieces of a size, and whether it was blocked."""
    pieces = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        left = "".join(chunk.text for chunk in chunks)
    return left, chunks.outcome is not None and chunks.outcome.blocked


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize(("method", "name", "odd"), ODD, ids=[f"{one[0]}-{one[1]}" for one in ODD])
def test_an_odd_return_lets_no_finding_leave_a_stream(method: str, name: str, odd: Any, size: int) -> None:
    """It is a failure, or does not matter: the address never leaves, however the stream is cut."""
    left, blocked = streamed(Mails(method, odd), size)
    assert "ada" not in left
    assert "example" not in left
    assert blocked or "[EMAIL]" in left


@pytest.mark.parametrize(
    ("method", "name", "odd"), [*ODD, *WHOLE], ids=[f"{one[0]}-{one[1]}" for one in [*ODD, *WHOLE]]
)
def test_an_odd_return_lets_no_finding_pass_in_a_whole_text(method: str, name: str, odd: Any) -> None:
    """The same."""
    outcome = Workflow("w").then(Mails(method, odd)).check_sync(TEXT)
    assert "ada" not in outcome.text
    assert outcome.blocked or "[EMAIL]" in outcome.text


@pytest.mark.parametrize("size", CUTS)
def test_usual_returns_are_no_failures(size: int) -> None:
    """The guard of these tests works, and a position before the undecided text holds all of that back."""
    wanted = TEXT.replace("ada@example.com", "[EMAIL]")
    assert streamed(Mails(), size) == (wanted, False)
    assert streamed(Mails("hold", lambda usual: usual - 1_000), size) == (wanted, False)
    assert Workflow("w").then(Mails()).check_sync(TEXT).text == wanted


class Says(TextGuard):
    """Says that it returns nothing."""

    def find(self, text: str, ctx: Any, *, final: bool) -> None:
        """Do nothing."""


class Aborts(TextGuard):
    """Stops the run where it finds something."""

    def find(self, text, ctx, *, final):  # type: ignore[no-untyped-def]
        """Abort."""
        if "@" in text:
            ctx.abort("no")


class Reports(TextGuard):
    """Declares that it edits nothing."""

    edits = "nothing"

    def find(self, text, ctx, *, final):  # type: ignore[no-untyped-def]
        """Note the length."""
        ctx.note(length=len(text))


@pytest.mark.parametrize("kind", [Says, Aborts, Reports])
def test_none_is_no_finding_where_it_is_meant(kind: Callable[[], TextGuard]) -> None:
    """The guard says so by its annotation, by what it declares, or since it aborts."""
    assert Workflow("w").then(kind()).check_sync("Hello.").text == "Hello."
    assert Workflow("w").then(kind()).check_sync(TEXT).blocked is (kind is Aborts)


def test_the_error_says_that_a_return_was_forgotten() -> None:
    """And what to do."""
    outcome = Workflow("w").then(Mails("find", lambda usual: None)).check_sync(TEXT)
    assert "did you forget to return the edits? Return []" in str(outcome.failure)
