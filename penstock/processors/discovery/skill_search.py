"""`SkillSearchProcessor`: skills that the model searches for, and keeps once they are loaded. It knows no agent."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.ports import SYSTEM_CLOCK
from penstock.processors.discovery.loaded import LOADED, Loads
from penstock.processors.discovery.notices import with_notices
from penstock.processors.discovery.options import count, function, in_one_line, score
from penstock.processors.discovery.ranking import hits_of
from penstock.processors.discovery.shadowing import Shadowing
from penstock.processors.discovery.skill_sources import SkillSource
from penstock.processors.discovery.skill_texts import fenced
from penstock.processors.discovery.skills import NAMED, not_found
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.ports import Clock
    from penstock.processors.discovery.loaded import Names, Storage
    from penstock.processors.discovery.skill import Skill
    from penstock.processors.discovery.skill_sources import SkillsGiven

SEARCH = "search_skills"
LOAD = "load_skill"

SkillHits: TypeAlias = "Iterable[tuple[str, float]]"
"""Names of skills with their scores, the best first; a name may come several times."""

SkillFinder: TypeAlias = "Callable[[str, int], SkillHits | Awaitable[SkillHits]]"
"""A search of one's own: from a query, and how many skills are wanted, to hits."""

_QUERY: Values = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Words that say what the skill is for."}},
    "required": ["query"],
    "additionalProperties": False,
}


class SkillDesk:
    """Answers one request's searches for skills, and wishes to load them. Lives as long as the request.

    Attributes:
        skills: by name.
        loaded: the names of those that are loaded, in the order in which they were.
        tools: the tools by which it is asked.
    """

    __slots__ = ("_finder", "_min_score", "_top_k", "loaded", "skills", "tools")

    def __init__(self, skills: dict[str, Skill], top_k: int, min_score: float, finder: SkillFinder | None) -> None:
        self._top_k, self._min_score, self._finder = top_k, min_score, finder
        self.skills = skills
        self.loaded: Names = {}
        self.tools = {tool.name: tool for tool in (_search_tool(self), _load_tool(self))}

    async def search(self, query: str) -> dict[str, Value]:
        """Return the skills that a query is about, each once."""
        best: dict[str, float] = {}
        for name, reached in await self._hits(query):
            if name in self.skills and reached >= self._min_score:
                best.setdefault(name, reached)
        told = [self._hit(name, best[name]) for name in list(best)[: self._top_k]]
        found = "1 skill" if len(told) == 1 else f"{len(told)} skills"
        message = f"{found} found. Call {LOAD} with the name of the one you need." if told else "No skill was found."
        return {"results": told, "message": message}

    async def _hits(self, query: str) -> SkillHits:
        if self._finder is not None:
            found = self._finder(query, self._top_k)
            return await found if inspect.isawaitable(found) else found
        names = list(self.skills)
        texts = [(skill.name, f"{skill.description}\n{skill.instructions}") for skill in self.skills.values()]
        return [(names[hit.place], hit.score) for hit in await hits_of(query, texts)]

    def _hit(self, name: str, reached: float) -> dict[str, Value]:
        return {"name": name, "description": in_one_line(self.skills[name].description), "score": round(reached, 2)}

    async def load(self, name: str) -> dict[str, Value]:
        """Load a skill by name, and say what came of it."""
        name = name.strip()
        if name not in self.skills:
            return not_found(name, tuple(self.skills.values()), f"Call {SEARCH} to see what there is.")
        before = name in self.loaded
        self.loaded[name] = None
        message = f"Skill {name} was loaded before." if before else f"Skill {name} is loaded; its instructions follow."
        return {"success": True, "message": message, "skill_name": name, LOADED: [name]}

    def instructions(self) -> list[str]:
        """Return the instructions of the skills that are loaded, each between its marks."""
        return [fenced(self.skills[name]) for name in tuple(self.loaded) if name in self.skills]


def _search_tool(desk: SkillDesk) -> Tool:
    async def search_skills(arguments: dict[str, object]) -> dict[str, Value]:
        return await desk.search(str(arguments["query"]))

    text = f"Search for skills: instructions for certain tasks. Load one by {LOAD} before you begin such a task."
    return Tool.from_schema(search_skills, name=SEARCH, parameters=_QUERY, description=text)


def _load_tool(desk: SkillDesk) -> Tool:
    async def load_skill(arguments: dict[str, object]) -> dict[str, Value]:
        return await desk.load(str(arguments["skill_name"]))

    text = f"Load a skill that {SEARCH} found: its instructions are in the system prompt from your next turn on."
    return Tool.from_schema(load_skill, name=LOAD, parameters=NAMED, description=text)


@dataclass
class SkillSearchState:
    """What one request knows: its skills, its desk, and what it has loaded itself."""

    skills: tuple[Skill, ...] | None = None
    desk: SkillDesk | None = None
    own: Names = field(default_factory=dict[str, None])


class SkillSearchProcessor(Processor[SkillSearchState]):
    """Brings two tools by which the model finds and loads skills; what is loaded is in the system prompt from then on.

    It protects nothing, so its failure leaves the model without skills.
    """

    id = "skill-search"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(
        self,
        skills: SkillsGiven,
        *,
        top_k: int = 5,
        min_score: float = 0.0,
        search: SkillFinder | None = None,
        storage: Storage = "in-memory",
        ttl: float | None = 3600.0,
        max_threads: int = 10_000,
        blocking_refresh: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            skills: skills, and paths of folders that hold a ``SKILL.md`` or whose folders do; or a function from the
                request context to skills, sync or async, which is asked once a request. Of those of one name, the
                first counts.
            top_k: how many skills a search finds at most.
            min_score: what has a lower score is not found; scores begin at 0 and have no upper end.
            search: a search of one's own, sync or async: from a query and a number of skills to names with scores.
                None: BM25 of names, descriptions and instructions.
            storage: where it is kept what was loaded. ``in-memory``: in this process, by the request's ``resource_id``
                and ``thread_id``; requests without a thread keep it to themselves. ``context``: nowhere but in the
                conversation, whose tool results tell it.
            ttl: for how many seconds a thread is remembered that nobody asks for; None: for ever.
            max_threads: how many threads are remembered, those of late.
            blocking_refresh: a request waits until the folders have been looked at for what is new. If not, it takes
                what was there, and changes show in the next one.
            clock: by what time passes.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        owner = type(self).__name__
        if id is not None:
            self.id = id
        self.top_k = count(owner, "top_k", top_k)
        self.min_score = score(owner, "min_score", min_score)
        self.search: SkillFinder | None = function(owner, "search", search)
        self.blocking_refresh = flag(owner, "blocking_refresh", blocking_refresh)
        kept = Loads(owner, storage=storage, ttl=ttl, max_threads=max_threads, clock=clock)
        self.storage, self.ttl, self.max_threads = kept.storage, kept.ttl, kept.max_threads
        self._loads = kept
        self._shadowing = Shadowing()
        self._source = SkillSource(owner, skills, blocking_refresh=self.blocking_refresh)

    def new_state(self) -> SkillSearchState:
        """Return the state of a request."""
        return SkillSearchState()

    async def process_input_step(self, ctx: InputStepContext[SkillSearchState]) -> Overrides | None:
        """Offer the tools, and tell the model what it has loaded."""
        skills = await self._source.of(ctx)
        if not skills:
            return None
        state = ctx.state
        if state.desk is None:
            by_name = {skill.name: skill for skill in reversed(skills)}
            state.desk = SkillDesk(by_name, self.top_k, self.min_score, self.search)
        desk = state.desk
        desk.loaded = self._loads.of(ctx, state.own, {LOAD})
        instructions = desk.instructions()
        ctx.note(skills=len(skills), loaded=len(instructions))
        given: Values = ctx.tools or EMPTY
        self._shadowing.warn(self.id, desk.tools, given)
        active = None if ctx.active_tools is None else [*ctx.active_tools, *desk.tools]
        return Overrides(tools={**given, **desk.tools}, active_tools=active, messages=with_notices(ctx, instructions))
