"""Every built-in processor can be pickled, so that a workflow can be sent to another process."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from operator import attrgetter
from typing import Any

import pytest
from pydantic import BaseModel

import penstock.processors
from penstock import Message, Workflow
from penstock.engine import ToolSpec
from penstock.engine.processor.processor import Processor
from penstock.processors.discovery import Skill
from penstock.processors.guards import PIIDetector, PIIType
from penstock.processors.text import RegexFilterProcessor, RegexRule
from penstock.stores import SQLiteStorage

ABSTRACT = {"Dropper"}


class Answer(BaseModel):
    """An answer's structure."""

    text: str


def told(*given: Any, **options: Any) -> None:
    """Do nothing, wherever a function is asked for."""


class Old:
    """A processor of the reference's old kind."""

    def process(self, messages: Any, **options: Any) -> Any:
        """Return the messages."""
        return messages


ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "AgentsMDInjector": ((), {"roots": ["."]}),
    "ClassifierProcessor": ((len, told), {}),
    "DropMessages": ((told,), {}),
    "DropParts": ((), {"types": ["image"]}),
    "LegacyMemory": ((Old(),), {}),
    "MemoryInputFilter": ((SQLiteStorage("none.db"),), {}),
    "MessageHistory": ((SQLiteStorage("none.db"),), {}),
    "ModelSelectionProcessor": ((), {"classifier": len, "select": told}),
    "PrepareStepProcessor": ((told,), {}),
    "RegexFilterProcessor": (([RegexRule("x", "y")],), {"presets": ["pii", "secrets", "urls"]}),
    "SemanticRecall": ((SQLiteStorage("none.db"),), {}),
    "SkillSearchProcessor": (([Skill("a", "b", "c")],), {}),
    "SkillsProcessor": (([Skill("a", "b", "c")],), {}),
    "StructuredOutputProcessor": ((Answer,), {}),
    "TokenCostControl": ((1.0,), {}),
    "ToolPolicy": ((), {"deny": ["pay"], "ask_when": "args.amount > 3"}),
    "TokenLimiterProcessor": ((100,), {}),
    "ToolSearchProcessor": (([ToolSpec("find")],), {}),
    "WorkingMemory": ((SQLiteStorage("none.db"),), {}),
}
"""What it takes to make a processor that cannot be made without arguments."""


def built_ins() -> list[type[Processor[Any]]]:
    """Return the classes of all built-in processors."""
    found: set[type[Processor[Any]]] = set()
    for module in pkgutil.walk_packages(penstock.processors.__path__, "penstock.processors."):
        classes = vars(importlib.import_module(module.name)).values()
        found.update(one for one in classes if inspect.isclass(one) and issubclass(one, Processor))
    own = (one for one in found if one.__module__.startswith("penstock.processors.") and one.__name__[0] != "_")
    return sorted((one for one in own if one.__name__ not in ABSTRACT), key=attrgetter("__name__"))


@pytest.mark.parametrize("kind", built_ins(), ids=attrgetter("__name__"))
def test_a_built_in_processor_can_be_pickled(kind: type[Processor[Any]]) -> None:
    """Alone, and within a workflow that has been used."""
    given, options = ARGUMENTS.get(kind.__name__, ((), {}))
    made = kind(*given, **options)
    again = pickle.loads(pickle.dumps(Workflow("w").then(made)))  # noqa: S301 - our own
    assert str(again) == str(Workflow("w").then(made))
    assert pickle.loads(pickle.dumps(made)).id == made.id  # noqa: S301


@pytest.mark.parametrize(
    "guard",
    [
        PIIDetector(detection_types=["url", "email", PIIType("plate", r"\b[A-Z]{2} \d{3}\b")], allow=["example.com"]),
        RegexFilterProcessor([RegexRule("plate", r"\b[A-Z]{2} \d{3}\b")], presets=["pii", "urls"], strategy="redact"),
    ],
    ids=["PIIDetector", "RegexFilterProcessor"],
)
def test_a_pickled_guard_finds_the_same(guard: Processor[Any]) -> None:
    """Also after it was used."""
    said = [Message.user("AB 123, jo@example.org, https://other.org/x, https://example.com/y")]
    before = Workflow("w").then(guard).check_sync(said).text
    assert Workflow("w").then(pickle.loads(pickle.dumps(guard))).check_sync(said).text == before  # noqa: S301
    assert "AB 123" not in before
