"""`SkillsProcessor`: tells the model which skills there are, and gives it those it asks for. It knows no agent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.processors.discovery.near_misses import near_misses
from penstock.processors.discovery.notices import with_notices
from penstock.processors.discovery.options import function
from penstock.processors.discovery.shadowing import Shadowing
from penstock.processors.discovery.skill_sources import SkillSource
from penstock.processors.discovery.skill_texts import SkillFormat, catalogue
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.processors.discovery.skill import Skill
    from penstock.processors.discovery.skill_sources import SkillsGiven

_NAME = re.compile(r"\w{1,64}", re.ASCII)  # what providers take


@dataclass
class SkillsState:
    """What one request knows: its skills, and the tool that gives them out."""

    skills: tuple[Skill, ...] | None = None
    tool: Tool | None = None


class SkillsProcessor(Processor[SkillsState]):
    """Lists skills in the system prompt, and brings the tool by which the model asks for the instructions of one.

    It protects nothing, so its failure leaves the model without skills.
    """

    id = "skills"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(
        self,
        skills: SkillsGiven,
        *,
        format: SkillFormat = "xml",  # noqa: A002 - the reference's name, and the plain one
        format_location: Callable[[Skill], str] | None = None,
        blocking_refresh: bool = False,
        tool: str | None = "load_skill",
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            skills: skills, and paths of folders that hold a ``SKILL.md`` or whose folders do; or a function from the
                request context to skills, sync or async, which is asked once a request.
            format: how they are listed: ``xml`` (escaped), ``json``, or ``markdown``, one line each.
            format_location: gives what is shown as a skill's place instead of the path of its file.
            blocking_refresh: a request waits until the folders have been looked at for what is new. If not, it takes
                what was there, and changes show in the next one.
            tool: the name of the tool that gives out instructions, by a skill's name or place; None: there is none,
                and the model reads the files by tools that it has.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        owner = type(self).__name__
        if id is not None:
            self.id = id
        self.format = one_of(owner, "format", format, get_args(SkillFormat))
        self.format_location: Callable[[Skill], str] | None = function(owner, "format_location", format_location)
        self.blocking_refresh = flag(owner, "blocking_refresh", blocking_refresh)
        self.tool = _tool_name(owner, tool)
        self._shadowing = Shadowing()
        self._source = SkillSource(owner, skills, blocking_refresh=self.blocking_refresh)

    def new_state(self) -> SkillsState:
        """Return the state of a request."""
        return SkillsState()

    async def process_input_step(self, ctx: InputStepContext[SkillsState]) -> Overrides | MessageList | None:
        """List the skills, and offer the tool."""
        skills = await self._source.of(ctx)
        if not skills:
            return None
        ctx.note(skills=len(skills))
        notices = [self._listed(skills), self._usage()]
        if self.tool is None:
            return with_notices(ctx, notices)
        state = ctx.state
        state.tool = state.tool or self._made(self.tool, skills)
        given: Values = ctx.tools or EMPTY
        self._shadowing.warn(self.id, (self.tool,), given)
        active = None if ctx.active_tools is None else [*ctx.active_tools, self.tool]
        return Overrides(
            tools={**given, self.tool: state.tool}, active_tools=active, messages=with_notices(ctx, notices)
        )

    def _listed(self, skills: tuple[Skill, ...]) -> str:
        return catalogue(skills, self.format, self._place)

    def _place(self, skill: Skill) -> str | None:
        return skill.location if self.format_location is None else self.format_location(skill)

    def _usage(self) -> str:
        how = "read the file at its location" if self.tool is None else f"call {self.tool} with its name"
        return f"The skills listed are instructions for certain tasks. When a task calls for one, {how}, and follow it."

    def _made(self, name: str, skills: tuple[Skill, ...]) -> Tool:
        places = dict(self._keys(skills))

        async def load_skill(arguments: dict[str, object]) -> dict[str, Value]:
            return _given(str(arguments["skill_name"]), places, skills)

        text = "Get the instructions of a skill that is listed in the system prompt."
        return Tool.from_schema(load_skill, name=name, parameters=NAMED, description=text)

    def _keys(self, skills: tuple[Skill, ...]) -> Iterator[tuple[str, Skill]]:
        """Yield what a skill may be asked for by; names win over places, and the first of a name over others."""
        for skill in reversed(skills):
            yield from ((place, skill) for place in (skill.location, self._place(skill)) if place)
        yield from ((skill.name, skill) for skill in reversed(skills))


def _tool_name(owner: str, given: object) -> str | None:
    if given is not None and not (isinstance(given, str) and given.isidentifier() and _NAME.fullmatch(given)):
        raise OptionError(owner, "tool", given, "a name of at most 64 of a-z, A-Z, 0-9 and '_', or None")
    return given


NAMED: Values = {
    "type": "object",
    "properties": {"skill_name": {"type": "string", "description": "The name of the skill, exactly as it is shown."}},
    "required": ["skill_name"],
    "additionalProperties": False,
}
"""The arguments of a tool that is told a skill's name."""


def not_found(name: str, skills: tuple[Skill, ...], otherwise: str) -> dict[str, Value]:
    """Return what a model is told that asked for a skill that is not there."""
    close = near_misses(name, dict.fromkeys(skill.name for skill in skills))
    told = f"Did you mean {', '.join(close)}?" if close else otherwise
    return {
        "success": False,
        "message": f"There is no skill of that name. {told}",
        **({"suggestions": close} if close else {}),
    }


def _given(name: str, places: dict[str, Skill], skills: tuple[Skill, ...]) -> dict[str, Value]:
    skill = places.get(name.strip())
    if skill is None:
        return not_found(name, skills, "The system prompt lists them.")
    return {"success": True, "skill_name": skill.name, "instructions": skill.instructions}
