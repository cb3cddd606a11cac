"""`SkillsProcessor`: list skills in the system prompt, and give the model the instructions that it asks for."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from penstock.detection.deferred import deferred
from penstock.detection.unicode.fences import defused
from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.processors.discovery.option_checks import NameConflicts, checked_function, one_line, with_notices
from penstock.processors.discovery.ranking import similar_names
from penstock.processors.discovery.skill import SkillSource
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.processors.discovery.skill import Skill, SkillsGiven


_NAME = deferred(r"\w{1,64}", re.ASCII)  # the names that providers accept


@dataclass
class SkillsState:
    """The state of one request: its skills, and the tool that returns their instructions."""

    skills: tuple[Skill, ...] | None = None
    tool: Tool | None = None


class SkillsProcessor(Processor[SkillsState]):
    """List skills in the system prompt, and add a tool by which the model gets the instructions of one.

    It is not a guard: if it fails, the model goes on without skills.

    Args:
        skills: `Skill` objects, and paths of folders with a ``SKILL.md`` or of folders of such folders; or a function
            (sync or async) from the request context to skills, called once per request.
        format: the format of the list: ``xml`` (escaped), ``json``, or ``markdown`` (one line for each skill).
        format_location: a function from a `Skill` to the location that is shown; None: the path of its file.
        blocking_refresh: wait in each request until the folders have been scanned for changes. If False, a request
            uses the last scan, and changes are visible in the next one.
        tool: the name of the tool that returns instructions by the name or location of a skill; None: no tool, the
            model reads the files with tools of its own.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    id = "skills"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(
        self,
        skills: SkillsGiven,
        *,
        format: SkillFormat = "xml",  # noqa: A002 - the name in Mastra
        format_location: Callable[[Skill], str] | None = None,
        blocking_refresh: bool = False,
        tool: str | None = "load_skill",
        id: str | None = None,
    ) -> None:
        owner = type(self).__name__
        if id is not None:
            self.id = id
        self.format = one_of(owner, "format", format, get_args(SkillFormat))
        self.format_location: Callable[[Skill], str] | None = checked_function(
            owner, "format_location", format_location
        )
        self.blocking_refresh = flag(owner, "blocking_refresh", blocking_refresh)
        self.tool = _tool_name(owner, tool)
        self._conflicts = NameConflicts()
        self._source = SkillSource(owner, skills, blocking_refresh=self.blocking_refresh)

    def new_state(self) -> SkillsState:
        """Return the state of a request."""
        return SkillsState()

    async def process_input_step(self, ctx: InputStepContext[SkillsState]) -> Overrides | MessageList | None:
        """List the skills, and add the tool."""
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
        self._conflicts.warn(self.id, (self.tool,), given)
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
        """Yield the keys of each skill, later ones winning: names over locations, and the first skill of a name."""
        for skill in reversed(skills):
            yield from ((place, skill) for place in (skill.location, self._place(skill)) if place)
        yield from ((skill.name, skill) for skill in reversed(skills))


def _tool_name(owner: str, given: object) -> str | None:
    if given is not None and not (isinstance(given, str) and given.isidentifier() and _NAME.fullmatch(given)):
        raise OptionError(owner, "tool", given, "a name of at most 64 characters of a-z, A-Z, 0-9 and '_', or None")
    return given


NAMED: Values = {
    "type": "object",
    "properties": {"skill_name": {"type": "string", "description": "The name of the skill, exactly as it is shown."}},
    "required": ["skill_name"],
    "additionalProperties": False,
}
"""The arguments of a tool that takes the name of a skill."""


def not_found(name: str, skills: tuple[Skill, ...], otherwise: str) -> dict[str, Value]:
    """Return the result for a model that asked for an unknown skill."""
    close = similar_names(name, dict.fromkeys(skill.name for skill in skills))
    hint = f"Did you mean {', '.join(close)}?" if close else otherwise
    return {
        "success": False,
        "message": f"There is no skill of that name. {hint}",
        **({"suggestions": close} if close else {}),
    }


def _given(name: str, places: dict[str, Skill], skills: tuple[Skill, ...]) -> dict[str, Value]:
    skill = places.get(name.strip())
    if skill is None:
        return not_found(name, skills, "The system prompt lists them.")
    return {"success": True, "skill_name": skill.name, "instructions": skill.instructions}


SkillFormat = Literal["xml", "json", "markdown"]

ELEMENT = "skill_instructions"

_LISTED = ("available_skills", "skill", "name", "description", "location", "source")


def catalogue(skills: Iterable[Skill], form: str, located: Callable[[Skill], str | None]) -> str:
    """Return a list of skills: name, description, location (if there is one), source.

    ``xml`` is escaped and ``markdown`` has one line for each skill, so that no description can imitate another entry.
    """
    entries = [_entry(skill, located(skill)) for skill in skills]
    if form == "json":
        return json.dumps({"available_skills": entries}, indent=2, ensure_ascii=False)
    if form == "markdown":
        return "\n".join(("Available skills:", *map(_line, entries)))
    inside = "\n".join(line for entry in entries for line in _lines(entry))
    return f"<available_skills>\n{inside}\n</available_skills>"


@lru_cache(maxsize=64)
def fenced(skill: Skill) -> str:
    """Return a skill's instructions in an element that they cannot close, otherwise unchanged."""
    name, text = (defused(one, (ELEMENT,)) for one in (skill.name, skill.instructions))
    return f'<{ELEMENT} skill="{html.escape(name)}">\n{text}\n</{ELEMENT}>'


def _entry(skill: Skill, location: str | None) -> dict[str, str]:
    entry = {"name": skill.name, "description": skill.description, "location": location, "source": skill.source}
    return {key: text for key, text in entry.items() if text is not None}


def _line(entry: dict[str, str]) -> str:
    texts = {key: one_line(text, None) for key, text in entry.items()}
    behind = ", ".join(texts[key] for key in ("location", "source") if key in texts)
    return f"- **{texts['name']}**: {texts['description']} ({behind})"


def _escaped(text: str) -> str:
    return html.escape(defused(text, _LISTED), quote=False)


def _lines(entry: dict[str, str]) -> Iterator[str]:
    yield "  <skill>"
    yield from (f"    <{key}>{_escaped(text)}</{key}>" for key, text in entry.items())
    yield "  </skill>"
