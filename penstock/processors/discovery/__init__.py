"""Discovery: processors that show a model what there is, and bring it what it asks for: tools, skills, instructions."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.discovery.agents_md import AgentsMDInjector
    from penstock.processors.discovery.file_reader import FileReader
    from penstock.processors.discovery.skill import Skill
    from penstock.processors.discovery.skill_search import SkillSearchProcessor
    from penstock.processors.discovery.skill_sources import read_skills
    from penstock.processors.discovery.skills import SkillsProcessor
    from penstock.processors.discovery.tool_access import ToolAccess
    from penstock.processors.discovery.tool_search import ToolSearchProcessor
else:
    __getattr__, __dir__ = lazily(
        __name__,
        agents_md=["AgentsMDInjector"],
        file_reader=["FileReader"],
        skill=["Skill"],
        skill_search=["SkillSearchProcessor"],
        skill_sources=["read_skills"],
        skills=["SkillsProcessor"],
        tool_access=["ToolAccess"],
        tool_search=["ToolSearchProcessor"],
    )

__all__ = [
    "AgentsMDInjector",
    "FileReader",
    "Skill",
    "SkillSearchProcessor",
    "SkillsProcessor",
    "ToolAccess",
    "ToolSearchProcessor",
    "read_skills",
]
