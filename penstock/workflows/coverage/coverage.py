"""`Coverage`: which step of a workflow or an agent reads which channel, and the gaps that no step covers."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from penstock.engine.graph.plan import serving
from penstock.engine.processor.processor import one_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import UsageError
from penstock.workflows.coverage.channels import CHANNELS, KINDS, NAMES, usual_channels
from penstock.workflows.coverage.paths import on_every_path, placed_steps
from penstock.workflows.coverage.picture import as_svg
from penstock.workflows.coverage.readings import ENFORCED, StepReading, is_listed, names_of
from penstock.workflows.coverage.table import as_markdown, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.graph.nodes import Sequence as SequenceNode, Step
    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.run.held_answers import Release
    from penstock.workflows.coverage.channels import ContentChannel

CoverageFormat = Literal["text", "markdown", "json", "svg"]

VERSION = 1
"""The version of the JSON form."""


class Gap(NamedTuple):
    """A channel on which no step looks for something on every path.

    Attributes:
        kind: the kind of content: one of `KINDS`, or the name of a step.
        channel: the name of the channel.
        why: why, in words.
    """

    kind: str
    channel: str
    why: str

    def __str__(self) -> str:
        """Return the gap as one line."""
        return f"{self.kind}: {self.channel}: {self.why}"


class Coverage:
    """Which step reads which channel; computed from the plan of a workflow or an agent. Nothing is run.

    Attributes:
        name: the name of the workflow or the agent.
        release: until when a streamed answer is held: ``live`` (not at all), ``step`` or ``result``.
        steps: the steps that read texts, each with its cells by the name of a channel.

    Args:
        plans: the compiled graph.
        release: the option ``release`` of an agent.
    """

    def __init__(self, plans: Plans, release: Release = "auto") -> None:
        self.name = plans.name
        self.release = plans.release if release == "auto" else release
        self._roots: Mapping[str, SequenceNode] = {
            name: serving(plans.resolved, stage, plans.orders) for name, stage in STAGES.items()
        }
        placed = [one for one in placed_steps(plans.resolved) if is_listed(one.step)]
        within = {name: {one.step.path for one in placed_steps(root)} for name, root in self._roots.items()}
        self.steps: Sequence[StepReading] = tuple(
            StepReading(one, [name for name in one.step.claims.hooks if one.step.path in within[name]], self.release)
            for one in placed
        )
        self._readings = {reading.path: reading for reading in self.steps}

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The usual channels that are not covered on every path, for each kind of content that a guard finds.

        Kinds that guards only report are left out.
        """
        return self.unmet(dict.fromkeys(self._kinds()))

    def _kinds(self) -> list[str]:
        """Return the kinds of content that guards look for and act on, or would, if they did not run in shadow."""
        shadowed = [one for one in self.steps if any("in shadow" in cell.conditions for cell in one.cells.values())]
        acting = [one for one in self.steps if any(cell.reads in ENFORCED for cell in one.cells.values())]
        return list(dict.fromkeys(kind for one in (*acting, *shadowed) for kind in one.finds))

    def unmet(self, required: Mapping[str, Iterable[str] | None]) -> tuple[Gap, ...]:
        """Return the gaps of a list of requirements.

        Args:
            required: by kind of content, the channels that a step must read on every path, and act on its findings;
                None: the usual channels. A kind is one of `KINDS`, a word of a processor's ``finds``, or the name of a
                step or a processor.

        Raises:
            UsageError: there is no such channel, or nothing of that name.
        """
        found: list[Gap] = []
        for kind, names in required.items():
            self._check_kind(kind)
            channels = usual_channels(kind) if names is None else [_channel(name) for name in names]
            found += [
                Gap(kind, channel.name, self._why(kind, channel))
                for channel in channels
                if not self.covers(kind, channel.name)
            ]
        return tuple(found)

    def covers(self, kind: str, channel: str) -> bool:
        """Return whether on every path a step reads a channel whole, and acts on its findings of a kind.

        Args:
            kind: the kind of content, as in `unmet`.
            channel: the name of the channel.

        Raises:
            UsageError: there is no such channel.
        """
        wanted = _channel(channel)
        return all(any(self._covers_in(stage, kind, wanted, part) for stage in wanted.stages) for part in wanted.kinds)

    def _covers_in(self, stage: str, kind: str, channel: ContentChannel, part: str) -> bool:
        def reads(step: Step) -> bool:
            reading = self._readings.get(step.path)
            return reading is not None and reading.reads_whole(kind, stage, channel, part)

        return on_every_path(self._roots[stage], reads)

    def _why(self, kind: str, channel: ContentChannel) -> str:
        cells = [(one.path, one.cells[channel.name]) for one in self.steps if one.finds_kind(kind)]
        if not cells:
            return "no step looks for it"
        reading = [(path, cell) for path, cell in cells if cell.reads != "unread"]
        if not reading:
            return f"not read by {', '.join(path for path, _ in cells)}"
        said: list[str] = []
        for path, cell in reading:
            only = "only observed" if cell.reads == "observes" else "read"
            said.append(f"{only} by {path} {', '.join(cell.conditions)}".rstrip())
        return "; ".join(said)

    def _check_kind(self, kind: str) -> None:
        """Refuse an unknown kind: a misspelt one must not pass as one that is missing.

        Raises:
            UsageError: it is neither a kind nor the name of a step.
        """
        known = [*KINDS, *(kind for one in self.steps for kind in one.finds), *names_of(self.steps)]
        if kind not in known:
            raise UsageError(f"nothing looks for {kind!r}{_close(kind, known)}")

    # As text

    def draw(self, format: CoverageFormat = "text", required: Mapping[str, Iterable[str] | None] | None = None) -> str:  # noqa: A002
        """Return the table as text, with the gaps behind it.

        Args:
            format: ``text`` (for a terminal), ``markdown``, ``json`` or ``svg`` (a picture).
            required: the requirements, as in `unmet`; None: the usual channels of each kind, as in `gaps`.

        Raises:
            OptionError: there is no such format.
            UsageError: as in `unmet`.
        """
        chosen = one_of("coverage", "format", format, get_args(CoverageFormat))
        gaps = self.gaps if required is None else self.unmet(required)
        if chosen == "json":
            return json.dumps(self.to_json(gaps), indent=2, ensure_ascii=False)
        made = {"markdown": as_markdown, "svg": as_svg}.get(chosen, as_text)
        return made(self.name, self.steps, [(gap.kind, gap.channel, gap.why) for gap in gaps])

    def to_json(self, gaps: Iterable[Gap] | None = None) -> dict[str, object]:
        """Return the table as JSON; docs/coverage.md describes its form.

        Args:
            gaps: the gaps in it; None: those of `gaps`.
        """
        channels = [{"name": one.name, "title": one.title, "way": one.way, "usual": one.usual} for one in CHANNELS]
        return {
            "version": VERSION,
            "name": self.name,
            "release": self.release,
            "channels": channels,
            "steps": [_step_json(one) for one in self.steps],
            "gaps": [gap._asdict() for gap in (self.gaps if gaps is None else gaps)],
        }

    def __str__(self) -> str:
        """Return the table for a terminal."""
        return self.draw()

    def __repr__(self) -> str:
        """Show the name, and how many steps and gaps there are."""
        return f"<Coverage {self.name!r}: {len(self.steps)} steps, {len(self.gaps)} gaps>"


def _step_json(one: StepReading) -> dict[str, object]:
    cells = {
        name: {
            "reads": cell.reads,
            "conditions": list(cell.conditions),
            "stages": list(cell.stages),
            "own_code": cell.own_code,
            "held": cell.held,
        }
        for name, cell in one.cells.items()
    }
    return {
        "path": one.path,
        "id": one.id,
        "processor": one.processor,
        "finds": list(one.finds),
        "own_code": one.own_code,
        "cells": cells,
    }


def _channel(name: str) -> ContentChannel:
    channel = NAMES.get(name)
    if channel is None:
        raise UsageError(f"there is no channel {name!r}{_close(name, NAMES)}")
    return channel


def _close(name: str, known: Iterable[str]) -> str:
    listed = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, listed, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(listed)}"


def parse_required(specs: Iterable[str]) -> dict[str, tuple[str, ...] | None]:
    """Return requirements as `Coverage.unmet` takes them, from words such as ``secrets:tool_call,answer``.

    Args:
        specs: each one a kind of content, and behind a colon the channels; without a colon, the usual channels.

    Raises:
        UsageError: a word names nothing to look for, or no channel behind its colon.
    """
    required: dict[str, tuple[str, ...] | None] = {}
    for spec in specs:
        kind, colon, listed = spec.partition(":")
        channels = tuple(name.strip() for name in listed.split(",") if name.strip())
        if not kind.strip() or (colon and not channels):
            raise UsageError(f"{spec!r} is no requirement; write KIND or KIND:CHANNEL,CHANNEL, as secrets:tool_call")
        known = required.get(kind.strip(), ())
        required[kind.strip()] = None if not colon or known is None else (*known, *channels)
    return required
