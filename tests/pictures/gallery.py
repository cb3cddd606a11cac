"""The workflows whose pictures are kept as golden files, and looked at: one of each shape that a reader may meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import Processor, Workflow, member
from penstock.workflows.presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Normalize(Processor[Any]):
    """A transform."""

    edits = "anything"
    role = "transform"

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Guard(Processor[Any]):
    """A guard of any name, at two stages."""

    edits = "spans"
    role = "guard"
    on_error = "block"

    def __init__(self, id: str) -> None:
        self.id = id

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""

    def process_output_step(self, ctx: Any) -> None:
        """Do nothing."""


class OwnCheck(Processor[Any]):
    """A step that declared no role."""

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Audit(Processor[Any]):
    """An observer."""

    role = "observer"

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


def is_long(ctx: Any) -> bool:
    """A condition."""
    return len(ctx.text) > 100


def is_foreign(ctx: Any) -> bool:
    """Another one."""
    return "é" in ctx.text


def chain(count: int) -> Workflow:
    """Steps one after the other, of all roles, and some with a policy."""
    workflow = Workflow(f"chain of {count}")
    for number in range(1, count + 1):
        step = (Normalize(), Guard("pii"), Audit(), OwnCheck())[(number - 1) % 4]
        workflow = workflow.then(step, id=f"step-{number}", timeout=2 if number % 7 == 4 else None)
    return workflow


def parallel(count: int) -> Workflow:
    """Steps side by side."""
    kinds = ("pii", "prompt-injection", "moderation", "secrets", "language", "toxicity", "topic")
    steps = [OwnCheck() if number % 8 == 7 else Guard(kinds[number % 8]) for number in range(count)]
    return Workflow(f"parallel of {count}").parallel(*steps)


def branches_in_parallels() -> Workflow:
    """Conditions short and long, nested workflows, an arm that passes."""
    text = (
        Workflow("text")
        .then(Normalize())
        .branch(
            (is_long, Workflow("long").then(Guard("chunks")).then(Guard("long-pii"))),
            (
                lambda ctx: "SELECT" in ctx.text and len(ctx.text) > 100 and not ctx.text.startswith("--"),
                Guard("sql-check"),
            ),
            otherwise=Guard("short-pii"),
        )
    )
    language = Workflow("language").branch((is_foreign, Normalize()))
    return (
        Workflow("branches in parallels")
        .then(Normalize(), id="clean")
        .parallel(text, Guard("injection"), language, timeout=2.0)
        .then(Audit())
    )


def nested() -> Workflow:
    """Workflows in workflows, three deep, with policies and a shadow step."""
    redact = Workflow("redact").then(Guard("emails")).then(Guard("phones"))
    privacy = (
        Workflow("privacy").then(Normalize()).then(redact, timeout=1.5, on_error="block").then(Audit(), mode="shadow")
    )
    door = Workflow("front door").then(Guard("length")).then(privacy).then(Guard("topic"))
    return Workflow("nesting three deep").then(door).then(Audit(), id="last")


def network() -> Workflow:
    """A dag that sequences and parallels cannot express."""
    return Workflow("network").dag(
        member(Normalize(), id="normalize"),
        member(Guard("language")),
        member(Guard("pii"), after="normalize"),
        member(Guard("translate"), after={"language": is_foreign, "normalize": None}),
        member(Guard("injection"), after=("normalize", "translate")),
        member(Audit(), after=("pii", "injection", "language")),
    )


GALLERY: Mapping[str, Callable[[], Workflow]] = {
    "chain-3": lambda: chain(3),
    "parallel-8": lambda: parallel(8),
    "branches-in-parallels": branches_in_parallels,
    "nested": nested,
    "chain-100": lambda: chain(100),
    "network": network,
    **{f"preset-{name}": preset for name, preset in sorted(PRESETS.items())},
}
"""Each workflow by its name."""
