from penstock.processors.discovery.agents_md import AgentsMDInjector as AgentsMDInjector, FileReader as FileReader
from penstock.processors.discovery.skill import Skill as Skill, read_skills as read_skills
from penstock.processors.discovery.skill_search import SkillSearchProcessor as SkillSearchProcessor
from penstock.processors.discovery.skills import SkillsProcessor as SkillsProcessor
from penstock.processors.discovery.tool_search import (
    ToolAccess as ToolAccess,
    ToolSearchProcessor as ToolSearchProcessor,
)
