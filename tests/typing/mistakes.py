"""Mistakes that `make lint` must find: an ignored line that were right would be reported as needlessly ignored."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from penstock import (
    ClassifierProcessor,
    Edit,
    InputContext,
    Key,
    LanguageDetector,
    Message,
    Outcome,
    Processor,
    Tripwire,
    Workflow,
    processor,
)
from penstock.processors.guards import Classification

LANGUAGE = Key[str]("language")


class Guard(Processor[list[str]]):
    """A guard whose state is a list."""

    edits = "everything"  # type: ignore[assignment]
    on_error = "ignore"  # type: ignore[assignment]

    def new_state(self) -> dict[str, int]:  # type: ignore[override]
        """Return another kind of state."""
        return {}

    def process_input(self, ctx: InputContext[list[str]]) -> None:
        """Do what does not fit."""
        ctx.state.add("x")  # type: ignore[attr-defined]
        ctx.put(LANGUAGE, 3)  # type: ignore[misc]
        number: int | None = ctx.get(LANGUAGE)  # type: ignore[assignment]
        ctx.text = "changed"  # type: ignore[misc]
        ctx.messages.append(Message.user(""))  # type: ignore[attr-defined]
        del number
        ctx.abort(3)  # type: ignore[arg-type]


def mistakes(outcome: Outcome, message: Message, tripwire: Tripwire) -> None:
    """Use values as they cannot be used."""
    message.role = "system"  # type: ignore[misc]
    tripwire.metadata["a"] = 1  # type: ignore[index]
    Message("robot", "hi")  # type: ignore[arg-type]
    Edit(0, 1, "x", "hide")  # type: ignore[arg-type]
    Workflow("w").then(Guard)  # type: ignore[arg-type]
    Workflow("w").then(len)  # type: ignore[arg-type]
    Workflow("w").then(Guard(), timout=2)  # type: ignore[call-arg]
    Workflow("w").parallel(Guard(), mode="shade")  # type: ignore[arg-type]
    Workflow("w").start(recrods=True)  # type: ignore[call-arg]
    Workflow("w").parallel(Guard(), merge="random")  # type: ignore[arg-type]
    Workflow("w").branch(Guard())  # type: ignore[arg-type]
    Workflow("w").branch((len, Guard()), match="some")  # type: ignore[arg-type]
    processor("process_inptu")  # type: ignore[call-overload]
    text: int = outcome.text  # type: ignore[assignment]
    outcome.fact("language")  # type: ignore[arg-type]
    del text


def decide(answer: str, about: Classification[str]) -> None:
    """Decide by a text."""


LanguageDetector(strategy="filter")  # type: ignore[arg-type]
LanguageDetector(treshold=0.5)  # type: ignore[call-arg]
ClassifierProcessor(len, decide)  # type: ignore[misc]
