"""Workflows and agents with one hole each, and others without any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock import (
    Agent,
    Edit,
    ModerationProcessor,
    PIIDetector,
    Processor,
    PromptInjectionDetector,
    RegexFilterProcessor,
    SystemPromptScrubber,
    UnicodeNormalizer,
    Workflow,
)
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.workflow import member
from penstock.testing import ScriptedModel
from penstock.testing.attack import Row
from penstock.workflows import presets

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = "bluebird-4711"
ROWS = [Row(f"The project is called {CODE} at our place.", CODE, "codenames")]


def short(view: Any) -> bool:
    """Whether a text is short."""
    return len(view.text) < 100


def known(view: Any) -> bool:
    """Whether somebody is known."""
    return bool(view.request_context.get("known"))


def never(view: Any) -> bool:
    """Never."""
    return False


class Codenames(TextGuard):
    """A guard of a user, over texts."""

    finds = ("codenames",)
    reach = len(CODE)

    def find(self, text: str, ctx: Any, *, final: bool) -> list[Edit]:
        """Return where the name stands."""
        return [Edit(*found.span(), "[NAME]", "redact") for found in re.finditer(CODE, text)]


class ByChunk(Processor):
    """A guard of a user that looks at single chunks, and at nothing else of the answer."""

    finds = ("codenames",)

    def process_output_stream(self, chunk: Any, ctx: Any) -> Any:
        """Hide the name in a chunk."""
        return chunk.with_text(chunk.text.replace(CODE, "[NAME]")) if CODE in chunk.text else chunk


class InputOnly(Processor):
    """A guard of a user that lacks all stages but one."""

    finds = ("codenames",)
    edits = "nothing"

    def process_input(self, ctx: Any) -> None:
        """Refuse the name."""
        if CODE in ctx.text:
            ctx.abort("a code name")


class Failing(Processor):
    """A guard that fails where it is asked about a word."""

    finds = ("codenames",)
    edits = "nothing"
    on_error = "allow"
    reads = ("user_text",)

    def process_input(self, ctx: Any) -> None:
        """Refuse the name."""
        if CODE in ctx.text:
            ctx.abort("a code name")


def then(*items: Any, **policy: Any) -> Workflow:
    """Return a workflow of steps."""
    made = Workflow("w")
    for item in items:
        made = made.then(item, **policy)
    return made


def agent(**lists: Any) -> Agent:
    """Return an agent."""
    return Agent(ScriptedModel(["x"]), **lists)


_KINDS = ("text", "reasoning", "image", "audio", "file", "tool", "source", "data", "step-start", "unknown")


def without(*kinds: str) -> tuple[str, ...]:
    """Return all kinds of parts but these."""
    return tuple(kind for kind in _KINDS if kind not in kinds)


HOLES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "input only": (lambda: then(PIIDetector(phase="input")), "personal", "answer"),
    "output only": (lambda: then(PIIDetector(phase="output")), "personal", "user_text"),
    "tool results unread": (lambda: then(PIIDetector(phase="output")), "secrets", "tool_result"),
    "no reasoning": (lambda: then(PIIDetector(parts=without("reasoning"))), "personal", "reasoning_live"),
    "no tools": (lambda: then(PIIDetector(parts=without("tool"))), "secrets", "tool_call"),
    "no data": (lambda: then(PIIDetector(parts=without("data"))), "personal", "answer_other"),
    "no sources": (lambda: then(PIIDetector(parts=without("source"))), "personal", "sources"),
    "no files": (lambda: then(PIIDetector(parts=without("file"))), "personal", "user_files"),
    "client's system messages": (lambda: then(PIIDetector(system="none")), "personal", "client_system"),
    "last message only": (lambda: then(PIIDetector(last_message_only=True)), "personal", "user_tools"),
    "an arm without a guard": (
        lambda: Workflow("w").branch((known, PIIDetector()), otherwise=UnicodeNormalizer()),
        "personal",
        "user_text",
    ),
    "an arm for short texts": (
        lambda: (
            Workflow("w")
            .branch((short, PIIDetector(phase="input")), otherwise=UnicodeNormalizer())
            .then(PIIDetector(phase="output", id="answers"))
        ),
        "personal",
        "user_text",
    ),
    "a branch without otherwise": (lambda: Workflow("w").branch((never, PIIDetector())), "personal", "answer_live"),
    "a dag past the guard": (
        lambda: Workflow("w").dag(
            member(UnicodeNormalizer(), id="a"), member(PIIDetector(), id="b", after={"a": never})
        ),
        "personal",
        "tool_result",
    ),
    "shadow": (lambda: then(PIIDetector(), mode="shadow"), "personal", "user_text"),
    "a workflow in shadow": (
        lambda: Workflow("w").then(then(PromptInjectionDetector()), mode="shadow"),
        "injection",
        "user_text",
    ),
    "fails open": (lambda: then(PIIDetector(), on_error="allow"), "personal", "user_text"),
    "fails open, own": (lambda: then(Failing()), "codenames", "user_text"),
    "the wrong list": (
        lambda: agent(input_processors=[RegexFilterProcessor(presets=["secrets"])]),
        "secrets",
        "answer",
    ),
    "single chunks": (lambda: then(ByChunk()), "codenames", "answer_live"),
    "one stage alone": (lambda: then(InputOnly()), "codenames", "tool_result"),
    "injections in tool results": (
        lambda: then(PromptInjectionDetector(parts=without("tool"))),
        "injection",
        "tool_result",
    ),
    "the prompt in tool calls": (lambda: then(SystemPromptScrubber(parts=without("tool"))), "leaks", "tool_call"),
}
"""By what is wrong: the workflow, and a kind of content with a channel that nothing looks into."""

WHOLE: dict[str, Callable[[], Any]] = {
    "safety": presets.safety,
    "safety, blocking": lambda: presets.safety(personal="block", attacks="block", leaks="block", harm="block"),
    "safety, blocking leaks": lambda: presets.safety(leaks="block"),
    "hygiene": presets.hygiene,
    "hygiene, blocking": lambda: presets.hygiene(personal="block", secrets="block", links="block"),
    "privacy": presets.privacy,
    "privacy, blocking": lambda: presets.privacy(strategy="block"),
    "privacy, of some types": lambda: presets.privacy(types=["email", "api-key"]),
    "injection": presets.injection,
    "injection, all system messages": lambda: presets.injection(system="all"),
    "moderation": lambda: presets.moderation(strategy="block"),
    "moderation, warning": presets.moderation,
    "secrets": lambda: then(RegexFilterProcessor(presets=["secrets"])),
    "personal data with history": lambda: then(PIIDetector(history=True)),
    "in parallel": lambda: Workflow("w").parallel(PIIDetector(), PromptInjectionDetector()),
    "in both arms": lambda: Workflow("w").branch((known, PIIDetector()), otherwise=PIIDetector(id="others")),
    "in a nested workflow": lambda: Workflow("w").then(then(PIIDetector())),
    "in a dag": lambda: Workflow("w").dag(
        member(UnicodeNormalizer(), id="a"), member(PIIDetector(), id="b", after="a")
    ),
    "an agent": lambda: agent(processors=[PIIDetector(), ModerationProcessor()]),
    "two lists": lambda: agent(
        input_processors=[PIIDetector(phase="input")], output_processors=[PIIDetector(phase="all", id="answers")]
    ),
    "own code over texts": lambda: then(Codenames()),
    "with a fallback": lambda: then(
        PIIDetector(detection_types=["email"]), on_error=RegexFilterProcessor(presets=["pii"])
    ),
}
"""Without a hole."""
