"""Every error Penstock raises, as one tree; it knows no other module of the package.

    PenstockError
    ├── DefinitionError          something was put together wrongly
    │   ├── OptionError          an option of a processor is not allowed
    │   ├── ProcessorError       a processor declares something that cannot be
    │   └── WorkflowError        a graph has problems (all of them at once)
    ├── MessageError             a message or a piece of one is malformed
    ├── EditError                edits that do not fit their text
    ├── UsageError               a run, a list or a context was used in a way it does not allow
    ├── MissingExtraError        a feature needs an extra that is not installed
    ├── StepFailedError          a step raised, hung, or returned what it may not
    │   └── MergeConflictError   parallel steps changed the same thing differently
    ├── BlockedError             `Outcome.unwrap()` of a blocked outcome
    ├── ModelError               a model could not be asked, or gave no answer
    ├── JudgeError               a judge gave no verdict
    ├── StorageError             a store could not be reached, is broken, or gave up
    │   ├── NotStoredError       what was asked for is not in it
    │   ├── OwnershipError       what was asked for is somebody else's
    │   └── StorageConflictError what was read has been changed by now
    ├── ToolError                a call to a tool gave no result (`penstock.tools.context`)
    └── ToolFailed               raised in a tool, to say so (there, too)

Each is built from facts, keeps them as attributes, and makes its own message: what, where, what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.model import Usage
    from penstock.engine.values.tripwire import Tripwire


class PenstockError(Exception):
    """The root: whatever Penstock raises on purpose is one of these."""


class DefinitionError(PenstockError):
    """Something was put together wrongly, before anything ran."""


class OptionError(DefinitionError):
    """An option that a processor does not allow.

    Attributes:
        processor: the class (or id) whose option it is.
        option: the option's name.
        given: the value that was refused.
        allowed: what would have been accepted, in words.
    """

    def __init__(self, processor: str, option: str, given: object, allowed: str) -> None:
        self.processor = processor
        self.option = option
        self.given = given
        self.allowed = allowed
        super().__init__(f"{processor}: option {option!r} is {given!r}, but must be {allowed}")


class ProcessorError(DefinitionError):
    """A processor whose declaration cannot be meant.

    Attributes:
        processor: the class or id.
        problem: what is wrong, and what to do.
    """

    def __init__(self, processor: str, problem: str) -> None:
        self.processor = processor
        self.problem = problem
        super().__init__(f"{processor}: {problem}")


class WorkflowError(DefinitionError):
    """A graph that cannot run; all of its problems at once.

    Attributes:
        workflow: the workflow's name.
        problems: one sentence a problem, each naming the step it is about.
    """

    def __init__(self, workflow: str, problems: Iterable[str]) -> None:
        self.workflow = workflow
        self.problems: tuple[str, ...] = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"workflow {workflow!r} has {count}:{lines}")


class MessageError(PenstockError):
    """A malformed message, or a piece of one.

    Attributes:
        place: where in the input, for example ``messages[3].content[1]``.
        problem: what is wrong there, and what is expected.
    """

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"{place}: {problem}" if place else problem)


class EditError(PenstockError):
    """Edits that overlap, or reach beyond the text they are for."""


class UsageError(PenstockError):
    """A run, a message list or a context used in a way that it does not allow; the text says the cure."""


class MissingExtraError(PenstockError, ImportError):
    """A feature whose library is not installed.

    Attributes:
        feature: what was asked for.
        extra: the extra of the distribution that brings it.
    """

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'penstock[{extra}]'")


class StepFailedError(PenstockError):
    """A step that broke: it raised, timed out, or returned what it may not. The original is the ``__cause__``.

    The message names the culprit and the kind of error, never the text that was being checked.

    Attributes:
        step: the step's path in its workflow.
        processor_id: the processor's id.
        stage: the stage that was running.
        problem: what happened, in words.
    """

    def __init__(self, step: str, processor_id: str, stage: str, problem: str) -> None:
        self.step = step
        self.processor_id = processor_id
        self.stage = stage
        self.problem = problem
        super().__init__(f"step {step!r} failed in {stage}: {problem}")


class MergeConflictError(StepFailedError):
    """Parallel steps changed the same thing in ways that cannot both hold.

    Attributes:
        culprits: the steps whose changes disagree, in declared order.
        places: what they disagree about.
    """

    def __init__(self, step: str, stage: str, culprits: Sequence[str], places: Sequence[str]) -> None:
        self.culprits: tuple[str, ...] = tuple(culprits)
        self.places: tuple[str, ...] = tuple(places)
        who = " and ".join(repr(culprit) for culprit in self.culprits)
        what = ", ".join(self.places)
        cure = "let one of them run after the other, or say merge= where they join"
        super().__init__(step, step, stage, f"{who} disagree about {what}; {cure}")


class BlockedError(PenstockError):
    """Raised by `Outcome.unwrap()` when the outcome is blocked.

    Attributes:
        tripwire: the verdict.
    """

    def __init__(self, tripwire: Tripwire) -> None:
        self.tripwire = tripwire
        super().__init__(f"blocked by {tripwire.processor_id!r} in {tripwire.stage}: {tripwire.reason}")


class ModelError(PenstockError):
    """A model that could not be asked, or gave no whole answer. No text of it holds a key.

    Attributes:
        model: the model's name.
        problem: what happened, in words.
        status: the HTTP status, if there was an answer.
        code: the provider's own code or type of error, if it gave one.
        retry_after: for how many seconds the provider asks to wait, if it does.
        headers: the headers of the answer that say something about it, by lower-case name.
        body: the beginning of the answer's body, at most `MOST_OF_A_BODY` characters.
        retryable: whether the same request may succeed later.
    """

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
        retryable: bool = False,
    ) -> None:
        self.model = model
        self.problem = problem
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.headers: Mapping[str, str] = dict(headers or {})
        self.body = body[:MOST_OF_A_BODY]
        self.retryable = retryable
        told = ", ".join(str(part) for part in (status and f"HTTP {status}", code) if part)
        super().__init__(f"model {model!r}: {problem}{f' ({told})' if told else ''}")


MOST_OF_A_BODY = 2000
"""How much of an answer's body a `ModelError` keeps: enough to read, too little to fill a log."""


class JudgeError(PenstockError):
    """A judge that gave no verdict; never to be taken for "nothing found".

    What a model raised is the ``__cause__``, unless that quotes what was judged. The message never does, nor does it
    quote what the model answered.

    Attributes:
        model: the model's name.
        reason: why: ``refused`` (the model, or its provider, would not), ``empty`` (it said nothing), ``unreadable``
            (what it said is no verdict), ``timeout``, ``model`` (it could not be asked), ``too-long`` (it was not).
        problem: what happened, in words.
        attempts: how often the model was asked.
        usage: the tokens that took; None where no answer told.
    """

    def __init__(self, model: str, reason: str, problem: str, *, attempts: int = 1, usage: Usage | None = None) -> None:
        self.model = model
        self.reason = reason
        self.problem = problem
        self.attempts = attempts
        self.usage = usage
        asked = {0: "", 1: " after 1 attempt"}.get(attempts, f" after {attempts} attempts")
        super().__init__(f"judge {model!r} gave no verdict{asked}: {problem} ({reason})")


class StorageError(PenstockError):
    """A store that could not be reached, is broken, or gave up. What its library raised is the ``__cause__``.

    No text of it quotes what is kept.

    Attributes:
        store: the store: its kind, and where it is, without passwords.
        problem: what happened, and what to do.
    """

    def __init__(self, store: str, problem: str) -> None:
        self.store = store
        self.problem = problem
        super().__init__(f"{store}: {problem}")


class NotStoredError(StorageError):
    """Something that was asked for is not in the store."""


class OwnershipError(StorageError):
    """Something belongs to another resource, or another thread, than was said: nothing was read or changed."""


class StorageConflictError(StorageError):
    """What was read has been changed by now: read it again, and decide anew.

    Attributes:
        version: the version that it has; 0 if it is gone.
    """

    def __init__(self, store: str, problem: str, version: int) -> None:
        self.version = version
        super().__init__(store, problem)
