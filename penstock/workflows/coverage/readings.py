"""`StepReading`: how one step reads each channel, from its options, its stages and its place in the graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from penstock.engine.graph.nodes import Step
from penstock.engine.processor.processor import FunctionProcessor
from penstock.engine.processor.stages import STAGES
from penstock.engine.text_guards.reading import OF_MESSAGE
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.workflows.coverage.channels import CHANNELS, FILES
from penstock.workflows.coverage.paths import PlacedStep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.processor.stages import Stage
    from penstock.workflows.coverage.channels import ContentChannel

Reads = Literal["stops", "hides", "observes", "unread"]
"""How a step reads a channel: it may stop the run, hides what it finds, or only reports; or it reads nothing."""

ENFORCED: tuple[Reads, ...] = ("stops", "hides")

_RANKS: Mapping[str, int] = {"live": 0, "step": 1, "result": 2}
_FIXED = (*FILES, "step-start", OF_MESSAGE)  # of these, guards read bodies and metadata
_JUDGES_CALLS = "calls"
"""The kind of content of a processor that decides whether tools may be called."""

_REPORTING = ("warn", "detect")


@dataclass(frozen=True, slots=True)
class Cell:
    """How one step reads one channel.

    Attributes:
        reads: ``stops``, ``hides``, ``observes`` or ``unread``.
        conditions: the limits, in words: ``only if is_long``, ``only text``, ``unless it fails``.
        stages: the stages in which it reads the channel.
        own_code: whether that is taken from the stages of code that declares nothing, which may read less.
        held: ``step`` or ``result`` if a stream is held until this step has judged its answer; otherwise empty.
    """

    reads: Reads
    conditions: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    own_code: bool = False
    held: str = ""


class StepReading:
    """How a step reads each channel.

    Attributes:
        path: its path in the graph.
        id: its id.
        processor: the name of its processor's class; of a function, its own.
        finds: the kinds of content that it looks for.
        own_code: whether its processor is none of the built-in ones.
        cells: how it reads each channel, by the channel's name.

    Args:
        placed: the step, and where it stands.
        stages: the stages in which it runs.
        release: until when a streamed answer is held.
    """

    def __init__(self, placed: PlacedStep, stages: Collection[str], release: str) -> None:
        step, processor = placed.step, placed.step.processor
        self.path = step.path
        self.id = step.id or step.claims.id
        self.processor = type(processor).__name__ if not isinstance(processor, FunctionProcessor) else processor.id
        self.finds = tuple(processor.finds)
        self.own_code = is_own_code(processor)
        self._placed, self._stages, self._release = placed, stages, release
        self._claims = step.claims
        self.cells: Mapping[str, Cell] = {channel.name: self._cell(channel) for channel in CHANNELS}

    def finds_kind(self, kind: str) -> bool:
        """Return whether the step looks for a kind of content, or is the step, or of the processor, of that name."""
        return kind in (*self.finds, self.path, self.id, self.processor, self._claims.id)

    def reads_whole(self, kind: str, stage: str, channel: ContentChannel, part: str) -> bool:
        """Return whether the step, where it runs, reads all parts of a sort in a channel and acts on its findings.

        Its fallbacks have to do the same.

        Args:
            kind: the kind of content, as in `finds_kind`.
            stage: the stage.
            channel: the channel.
            part: the kind of parts in it.
        """
        acts = self._action(channel) in ENFORCED and self._limits(stage, channel, part) == ()
        return (
            acts
            and self.finds_kind(kind)
            and all(one is not None and one.reads_whole(kind, stage, channel, part) for one in self._instead)
        )

    @cached_property
    def _instead(self) -> tuple[StepReading | None, ...]:
        """The fallbacks, as readings; None where there is none, and the step is left out."""
        steps = [None if one is None else Step(one, path=one.id) for one in self._placed.fallbacks]
        return tuple(
            None if step is None else StepReading(PlacedStep(step), step.claims.hooks, self._release) for step in steps
        )

    def _cell(self, channel: ContentChannel) -> Cell:
        """Return how the step reads a channel."""
        best: dict[str, tuple[str, ...]] = {}
        stages: list[str] = []
        for stage in channel.stages:
            for part in channel.kinds:
                limits = self._limits(stage, channel, part)
                if limits is None:
                    continue
                stages.append(stage)
                if part not in best or len(limits) < len(best[part]):
                    best[part] = limits
        if not best:
            return Cell("unread")
        reads = self._action(channel)
        limited = [limit for part in best for limit in best[part]]
        some = [f"only {', '.join(best)}"] if len(best) < len(channel.kinds) else []
        failing = self._if_it_fails(channel) if reads in ENFORCED else ()
        shadow = ["in shadow"] if self._placed.shadow else []
        conditions = (*self._placed.conditions, *shadow, *some, *limited, *failing)
        used = tuple(dict.fromkeys(stages))
        late = channel.live and not any(STAGES[stage].streams for stage in used)
        held = next((STAGES[stage].judges or "" for stage in reversed(used)), "") if late else ""
        own = not any(self._is_declared(stage) for stage in used)
        return Cell(reads, tuple(dict.fromkeys(conditions)), used, own, held)

    def _action(self, channel: ContentChannel) -> Reads:
        processor = self._placed.step.processor
        reports = getattr(processor, "strategy", None) in _REPORTING
        if self._placed.shadow or reports or self._claims.role == "observer":
            return "observes"
        if _JUDGES_CALLS in processor.finds and not isinstance(processor, TextGuard):
            return "stops"  # it decides about a call as a whole: it does not run, or a person is asked
        return "stops" if self._claims.edits == "nothing" or channel.fixed else "hides"

    def _if_it_fails(self, channel: ContentChannel) -> tuple[str, ...]:
        """Return the limits of a step that fails, in words; empty if its fallbacks find its kinds, too."""
        limits: list[str] = []
        for one in self._instead:
            if one is None:
                limits.append("unless it fails")
            elif not set(self.finds) <= set(one.finds) or one.cells[channel.name].reads not in ENFORCED:
                limits.append(f"unless it fails (then {one.id})")
        return tuple(limits)

    # One stage

    def _is_declared(self, stage: str) -> bool:
        """Return whether the texts of a stage are known: declared channels, or a built-in hook."""
        processor = self._placed.step.processor
        return processor.reads is not None or (isinstance(processor, TextGuard) and is_built_in(processor, stage))

    def _limits(self, name: str, channel: ContentChannel, part: str) -> tuple[str, ...] | None:
        """Return the limits on a kind of parts in a stage, in words; None if they are not read there."""
        stage, processor = STAGES[name], self._placed.step.processor
        if name not in self._stages or name not in channel.stages or not self._in_time(stage, channel):
            return None
        if processor.reads is not None:
            return () if channel.name in processor.reads else None
        if isinstance(processor, TextGuard) and is_built_in(processor, name):
            return _limits_of_guard(processor, stage, channel, part)
        return _limits_of_own_code(stage, channel)

    def _in_time(self, stage: Stage, channel: ContentChannel) -> bool:
        """Return whether a stage sees a channel before it leaves: of a stream, a later one only if it is held."""
        if not channel.live or stage.streams:
            return True
        counts = self._claims.role == "guard" and not self._placed.shadow
        return counts and stage.judges is not None and _RANKS[self._release] >= _RANKS[stage.judges]


def _limits_of_guard(guard: TextGuard, stage: Stage, channel: ContentChannel, part: str) -> tuple[str, ...] | None:
    scope = guard.scope
    if part in _FIXED and not guard.search.reads_fixed:
        return None
    if stage.value:
        return () if channel.source in (stage.value, "response") else None
    if not scope.reads(stage, channel.source) or part not in (*scope.kinds, OF_MESSAGE):
        return None
    limits: list[str] = []
    if scope.last_message_only and not stage.streams and channel.source in ("input", "context", "memory"):
        if channel.source != "input":
            return None
        limits.append("only in the last message")
    elif scope.last_message_only and stage.judges == "result":
        limits.append("only in the last answer")
    if part in FILES and scope.on_unread != "block":
        limits.append("bodies that cannot be read pass")
    return tuple(limits)


def _limits_of_own_code(stage: Stage, channel: ContentChannel) -> tuple[str, ...] | None:
    """Return the limits of code that declares nothing: it may read all that its stage shows."""
    if stage.streams:
        return ("each chunk by itself",)
    if stage.value or channel.source == "error":
        return ()
    if channel.source == "tools":
        return None
    return () if stage.shows_source(channel.source) else None


def is_own_code(processor: AnyProcessor) -> bool:
    """Return whether a processor is none of the built-in ones."""
    return isinstance(processor, FunctionProcessor) or not type(processor).__module__.startswith("penstock.")


def is_built_in(processor: AnyProcessor, stage: str) -> bool:
    """Return whether the hook of a stage is one of the library, whoever wrote the processor."""
    hook: object = getattr(type(processor), stage, None)
    return str(getattr(hook, "__module__", "")).startswith("penstock.")


def is_listed(step: Step) -> bool:
    """Return whether a step has a row: guards and observers of texts, code of the user, and what declares channels.

    Built-in processors that judge no text, such as a limit of tokens, have none, nor have transforms.
    """
    processor = step.processor
    reports = getattr(processor, "strategy", None) in _REPORTING
    if processor.role == "transform" and not reports:
        return False
    return isinstance(processor, TextGuard) or processor.reads is not None or is_own_code(processor)


def names_of(readings: Iterable[StepReading]) -> list[str]:
    """Return the names under which steps can be asked for, each once."""
    return list(dict.fromkeys(name for one in readings for name in (one.path, one.id, one.processor)))
