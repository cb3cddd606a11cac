"""Every error that Penstock raises, as one tree.

    PenstockError
    ├── DefinitionError          a processor or a workflow was defined wrongly
    │   ├── OptionError          an option of a processor has a value that is not allowed
    │   ├── ProcessorError       a processor declares something impossible
    │   └── WorkflowError        a graph has problems (all of them at once)
    ├── MessageError             a message, or a part of one, is malformed
    ├── EditError                edits overlap, or do not fit their text
    ├── TraceError               a trace read from JSON is malformed
    ├── UsageError               a run, a list or a context was used in a way that it does not allow
    ├── MissingExtraError        a feature needs an extra that is not installed
    ├── StepFailedError          a step raised, timed out, or returned something that it may not
    │   └── MergeConflictError   parallel steps changed the same thing differently
    ├── BlockedError             `Outcome.unwrap()` of a blocked outcome (`penstock.engine.values.tripwire`)
    ├── ModelError               a model could not be asked, or gave no complete answer
    ├── DetectorError            a detector could not be asked, or gave no valid answer
    ├── ConditionError           a condition could not be decided
    ├── JudgeError               a judge gave no verdict (`penstock.engine.values.model`)
    ├── StorageError             a store cannot be reached, is broken, or gave up
    │   ├── NotStoredError       it does not hold the requested item
    │   ├── OwnershipError       the requested item belongs to somebody else
    │   └── StorageConflictError the item has changed since it was read
    ├── ReviewError              a suspended run cannot be decided about, or cannot go on
    ├── ToolError                a call to a tool gave no result (`penstock.tools.context`)
    └── ToolFailed               raised in a tool to report a failure (`penstock.tools.context`)

Each error is built from facts, keeps them as attributes, and makes its message from them: what is wrong, where, and
what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.secret_names import holds_secret, masked_code, masked_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class PenstockError(Exception):
    """The base class of every error that Penstock raises on purpose.

    Errors can be pickled: engines of durable execution record them.
    """

    def __reduce__(self) -> tuple[object, ...]:
        """Return how it is made again: from its message and attributes, since the arguments differ in each class."""
        return _made_again, (type(self), *self.args), vars(self)


def _made_again(kind: type[PenstockError], *args: object) -> PenstockError:
    return kind.__new__(kind, *args)


class DefinitionError(PenstockError):
    """A processor or a workflow was defined wrongly; raised before anything runs."""


class OptionError(DefinitionError):
    """An option of a processor has a value that is not allowed.

    Attributes:
        processor: the class or id of the processor.
        option: the name of the option.
        given: the value that was refused. The message shows it with ``***`` in place of secrets.
        allowed: the values that are accepted, in words.
    """

    def __init__(self, processor: str, option: str, given: object, allowed: str) -> None:
        self.processor = processor
        self.option = option
        self.given = given
        self.allowed = allowed
        super().__init__(f"{processor}: option {option!r} is {_shown(given)}, but must be {allowed}")


def _shown(given: object) -> str:
    """Return a refused value as text without secrets; one that is nested too deeply for that by its type."""
    try:
        return masked_code(repr(masked_value(given) if holds_secret(given) else given))
    except RecursionError:
        return f"a {type(given).__name__} that is nested too deeply"


class ProcessorError(DefinitionError):
    """A processor declares something impossible, for example stages for which it has no method.

    Attributes:
        processor: the class or id of the processor.
        problem: the fault and its cure.
    """

    def __init__(self, processor: str, problem: str) -> None:
        self.processor = processor
        self.problem = problem
        super().__init__(f"{processor}: {problem}")


class WorkflowError(DefinitionError):
    """A graph cannot run. The error lists all of its problems.

    Attributes:
        workflow: the name of the workflow.
        problems: one sentence for each problem; it names the step.
    """

    def __init__(self, workflow: str, problems: Iterable[str]) -> None:
        self.workflow = workflow
        self.problems: tuple[str, ...] = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__(f"workflow {workflow!r} has {count}:{lines}")


class MessageError(PenstockError):
    """A message, or a part of one, is malformed.

    Attributes:
        place: where it stands in the input, for example ``messages[3].content[1]``.
        problem: the fault there, and the expected value.
    """

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"{place}: {problem}" if place else problem)


class TraceError(PenstockError):
    """A trace that was read from JSON is malformed. The message quotes nothing of it.

    Attributes:
        place: where, for example ``spans[3].status``; empty for the trace as a whole.
        problem: the fault there, and the expected value.
    """

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"trace: {place}: {problem}" if place else f"trace: {problem}")


class EditError(PenstockError):
    """Edits overlap, or reach beyond the text that they are for."""


class UsageError(PenstockError):
    """A run, a message list or a context was used in a way that it does not allow. The message says what to do."""


class NoMessageError(UsageError):
    """A request has no message to answer: none was given, or processors have removed all of them."""


class NestingError(UsageError):
    """Agents call each other as tools too deeply; most likely, one is its own tool. It ends all of their requests."""


class MissingExtraError(PenstockError, ImportError):
    """A feature needs a library that is not installed.

    Attributes:
        feature: the feature.
        extra: the extra of the distribution that installs the library.
    """

    def __init__(self, feature: str, extra: str) -> None:
        self.feature = feature
        self.extra = extra
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'penstock[{extra}]'")


class StepFailedError(PenstockError):
    """A step raised, timed out, or returned something that it may not. The original error is the ``__cause__``.

    The message names the step and the type of the error, never the text that was being checked.

    Attributes:
        step: the path of the step in its workflow.
        processor_id: the id of the processor.
        stage: the stage that was running.
        problem: what happened, in words.
    """

    def __init__(self, step: str, processor_id: str, stage: str, problem: str) -> None:
        self.step = step
        self.processor_id = processor_id
        self.stage = stage
        self.problem = problem
        super().__init__(f"step {step!r} failed in {stage}: {problem}")


class ConditionError(PenstockError):
    """A condition could not be decided: a name or a key is missing, or a type does not fit.

    Attributes:
        problem: the fault and its cure. It quotes nothing of the request, so that records and verdicts may show it.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class MergeConflictError(StepFailedError):
    """Parallel steps changed the same thing differently, and no merge policy resolves it.

    Attributes:
        culprits: the paths of the steps that disagree, in declared order.
        places: where they disagree, in words: a part of a message, a fact, a field. No text is quoted.
    """

    def __init__(self, step: str, stage: str, culprits: Sequence[str], places: Sequence[str]) -> None:
        self.culprits: tuple[str, ...] = tuple(culprits)
        self.places: tuple[str, ...] = tuple(places)
        who = " and ".join(repr(culprit) for culprit in self.culprits)
        what = ", ".join(self.places)
        cure = "run one of them after the other, or set merge= where they join"
        super().__init__(step, step, stage, f"{who} disagree about {what}; {cure}")


class ModelError(PenstockError):
    """A model could not be asked, or gave no complete answer. Neither the message nor the attributes hold an API key.

    Attributes:
        model: the name of the model.
        problem: what happened, in words.
        status: the HTTP status; None if there was no answer.
        code: the provider's own code or type of error; None if it gave none.
        retry_after: the seconds that the provider asks the client to wait; None if it does not.
        headers: headers of the answer that help to find the cause, by lower-case name.
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
        details = ", ".join(str(part) for part in (status and f"HTTP {status}", code) if part)
        super().__init__(f"model {model!r}: {problem}{f' ({details})' if details else ''}")


class DetectorError(PenstockError):
    """A detector could not be asked, or gave no valid answer, so a text was not checked. No text is quoted.

    Attributes:
        detector: the name of the detector.
        problem: what happened, in words.
    """

    def __init__(self, detector: str, problem: str) -> None:
        self.detector = detector
        self.problem = problem
        super().__init__(f"detector {detector!r}: {problem}")


def without_text(error: BaseException) -> str:
    """Return the facts about an error that a log may hold: its type, that of its cause, and where it was raised.

    Its text is left out, and that of its cause: it may quote hidden or unchecked text.
    """
    import traceback  # loaded where something went wrong

    frames = traceback.extract_tb(error.__traceback__)
    places = "".join([f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames])
    cause = "" if error.__cause__ is None else f", caused by {type(error.__cause__).__name__}"
    return f"{type(error).__name__}{cause}{places}"


MOST_OF_A_BODY = 2000
"""How many characters of an answer's body a `ModelError` keeps: enough to read, too few to fill a log."""


class StorageError(PenstockError):
    """A store cannot be reached, is broken, or gave up. The error of its library is the ``__cause__``.

    The message quotes nothing that is stored.

    Attributes:
        store: the kind of the store and its address, without passwords.
        problem: what happened, and what to do.
    """

    def __init__(self, store: str, problem: str) -> None:
        self.store = store
        self.problem = problem
        super().__init__(f"{store}: {problem}")


class NotStoredError(StorageError):
    """The store does not hold the requested item."""


class OwnershipError(StorageError):
    """The requested item belongs to another resource or thread than the one given. Nothing was read or changed."""


class StorageConflictError(StorageError):
    """The item has changed since it was read. Read it again before changing it.

    Attributes:
        version: its version now; 0 if it was deleted.
    """

    def __init__(self, store: str, problem: str, version: int) -> None:
        self.version = version
        super().__init__(store, problem)


class ReviewError(PenstockError):
    """A suspended run cannot be decided about, or cannot go on.

    Attributes:
        run_id: the id of the run.
        problem: what is wrong, and what to do.
    """

    def __init__(self, run_id: str, problem: str) -> None:
        self.run_id = run_id
        self.problem = problem
        super().__init__(f"run {run_id}: {problem}")
