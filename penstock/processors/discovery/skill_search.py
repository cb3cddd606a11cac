"""`SkillSearchProcessor`: let the model search for skills; loaded ones stay in the system prompt."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.processors.discovery.loaded_names import LOADED, LoadedNames
from penstock.processors.discovery.option_checks import (
    NameConflicts,
    checked_function,
    one_line,
    with_notices,
)
from penstock.processors.discovery.ranking import ranked_texts
from penstock.processors.discovery.skill import SkillSource
from penstock.processors.discovery.skills import NAMED, fenced, not_found
from penstock.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Clock
    from penstock.engine.values.shared import NameStore
    from penstock.processors.discovery.loaded_names import NameSet, Storage
    from penstock.processors.discovery.skill import Skill, SkillsGiven


SEARCH = "search_skills"
LOAD = "load_skill"

SkillHits: TypeAlias = "Iterable[tuple[str, float]]"
"""Names of skills with their scores, the best first; names may repeat."""

SkillFinder: TypeAlias = "Callable[[str, int], SkillHits | Awaitable[SkillHits]]"
"""A custom search (sync or async): from a query and the number of wanted skills to hits."""

_QUERY: Values = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Words that say what the skill is for."}},
    "required": ["query"],
    "additionalProperties": False,
}


class SkillSearchSession:
    """The search session of one request: runs the tools that search and load skills.

    Attributes:
        skills: the skills by name.
        loaded: the names of the loaded skills, in the order in which they were loaded.
        tools: the tools for the model, by name.
        save: stores names where other processes find them.
    """

    __slots__ = ("_finder", "_min_score", "_top_k", "loaded", "save", "skills", "tools")

    def __init__(self, skills: dict[str, Skill], top_k: int, min_score: float, finder: SkillFinder | None) -> None:
        self._top_k, self._min_score, self._finder = top_k, min_score, finder
        self.skills = skills
        self.loaded: NameSet = {}
        self.save: Callable[[list[str]], Awaitable[None]] | None = None
        self.tools = {tool.name: tool for tool in (_search_tool(self), _load_tool(self))}

    async def search(self, query: str) -> dict[str, Value]:
        """Return the skills that match a query, each once."""
        best: dict[str, float] = {}
        for name, reached in await self._hits(query):
            if name in self.skills and reached >= self._min_score:
                best.setdefault(name, reached)
        result = [self._hit(name, best[name]) for name in list(best)[: self._top_k]]
        found = "1 skill" if len(result) == 1 else f"{len(result)} skills"
        message = f"{found} found. Call {LOAD} with the name of the one you need." if result else "No skill was found."
        return {"results": result, "message": message}

    async def _hits(self, query: str) -> SkillHits:
        if self._finder is not None:
            found = self._finder(query, self._top_k)
            return await found if inspect.isawaitable(found) else found
        names = list(self.skills)
        texts = [(skill.name, f"{skill.description}\n{skill.instructions}") for skill in self.skills.values()]
        return [(names[hit.place], hit.score) for hit in await ranked_texts(query, texts)]

    def _hit(self, name: str, reached: float) -> dict[str, Value]:
        return {"name": name, "description": one_line(self.skills[name].description), "score": round(reached, 2)}

    async def load(self, name: str) -> dict[str, Value]:
        """Load a skill by name, and return the result for the model."""
        name = name.strip()
        if name not in self.skills:
            return not_found(name, tuple(self.skills.values()), f"Call {SEARCH} to see what there is.")
        before = name in self.loaded
        self.loaded[name] = None
        if self.save is not None:
            await self.save([name])
        message = f"Skill {name} was loaded before." if before else f"Skill {name} is loaded; its instructions follow."
        return {"success": True, "message": message, "skill_name": name, LOADED: [name]}

    def instructions(self) -> list[str]:
        """Return the instructions of the loaded skills, each in its element."""
        return [fenced(self.skills[name]) for name in tuple(self.loaded) if name in self.skills]


def _search_tool(session: SkillSearchSession) -> Tool:
    async def search_skills(arguments: dict[str, object]) -> dict[str, Value]:
        return await session.search(str(arguments["query"]))

    text = f"Search for skills: instructions for certain tasks. Load one by {LOAD} before you begin such a task."
    return Tool.from_schema(search_skills, name=SEARCH, parameters=_QUERY, description=text)


def _load_tool(session: SkillSearchSession) -> Tool:
    async def load_skill(arguments: dict[str, object]) -> dict[str, Value]:
        return await session.load(str(arguments["skill_name"]))

    text = f"Load a skill that {SEARCH} found: its instructions are in the system prompt from your next turn on."
    return Tool.from_schema(load_skill, name=LOAD, parameters=NAMED, description=text)


@dataclass
class SkillSearchState:
    """The state of one request: its skills, its session, and the names that it has loaded itself."""

    skills: tuple[Skill, ...] | None = None
    session: SkillSearchSession | None = None
    own: NameSet = field(default_factory=dict[str, None])


class SkillSearchProcessor(Processor[SkillSearchState]):
    """Add two tools by which the model searches and loads skills. Loaded skills stay in the system prompt.

    It is not a guard: if it fails, the model goes on without skills.

    Args:
        skills: `Skill` objects, and paths of folders with a ``SKILL.md`` or of folders of such folders; or a function
            (sync or async) from the request context to skills, called once per request. Of skills with the same name,
            the first counts.
        top_k: the most skills that a search returns, 1 or more.
        min_score: skills with a lower score are not returned, 0 or more; scores have no upper limit.
        search: a custom search (sync or async): a function from a query and a number of skills to names with scores.
            None: BM25 over names, descriptions and instructions.
        storage: where loaded names are stored. ``in-memory``: in this process, by the ``resource_id`` and ``thread_id``
            of the request; without a thread, for the request only. ``context``: only in the tool results of the
            conversation. A `NameStore`, such as ``names`` of a `SharedState`: by the same ids, for all processes.
        ttl: seconds after which an unused thread is forgotten, above 0; None: never.
        max_threads: the most threads that this process remembers, 1 or more; the least recently used is forgotten
            first.
        blocking_refresh: wait in each request until the folders have been scanned for changes. If False, a request
            uses the last scan, and changes are visible in the next one.
        clock: tells the time.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed.
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
        storage: Storage | NameStore = "in-memory",
        ttl: float | None = 3600.0,
        max_threads: int = 10_000,
        blocking_refresh: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        id: str | None = None,
    ) -> None:
        owner = type(self).__name__
        if id is not None:
            self.id = id
        self.top_k = check_count(owner, "top_k", top_k, least=1)
        self.min_score = float(
            check_number(owner, "min_score", min_score, "a number of 0 or more; scores have no upper limit")
        )
        self.search: SkillFinder | None = checked_function(owner, "search", search)
        self.blocking_refresh = flag(owner, "blocking_refresh", blocking_refresh)
        loaded_names = LoadedNames(owner, storage=storage, ttl=ttl, max_threads=max_threads, clock=clock)
        self.storage, self.ttl, self.max_threads = loaded_names.storage, loaded_names.ttl, loaded_names.max_threads
        self._loaded = loaded_names
        self._conflicts = NameConflicts()
        self._source = SkillSource(owner, skills, blocking_refresh=self.blocking_refresh)

    def new_state(self) -> SkillSearchState:
        """Return the state of a request."""
        return SkillSearchState()

    async def process_input_step(self, ctx: InputStepContext[SkillSearchState]) -> Overrides | None:
        """Add the tools, and the instructions of the loaded skills."""
        skills = await self._source.of(ctx)
        if not skills:
            return None
        state = ctx.state
        if state.session is None:
            by_name = {skill.name: skill for skill in reversed(skills)}
            state.session = SkillSearchSession(by_name, self.top_k, self.min_score, self.search)
        session = state.session
        session.loaded = await self._loaded.of(ctx, state.own, {LOAD})
        session.save = lambda names: self._loaded.add(ctx, state.own, names)
        instructions = session.instructions()
        ctx.note(skills=len(skills), loaded=len(instructions))
        given: Values = ctx.tools or EMPTY
        self._conflicts.warn(self.id, session.tools, given)
        active = None if ctx.active_tools is None else [*ctx.active_tools, *session.tools]
        return Overrides(
            tools={**given, **session.tools}, active_tools=active, messages=with_notices(ctx, instructions)
        )
