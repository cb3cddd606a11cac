from penstock.processors.discovery.agents_md import AgentsMDInjector as AgentsMDInjector
from penstock.processors.discovery.file_reader import FileReader as FileReader
from penstock.processors.discovery.skill import Skill as Skill
from penstock.processors.discovery.skill_search import SkillSearchProcessor as SkillSearchProcessor
from penstock.processors.discovery.skill_sources import read_skills as read_skills
from penstock.processors.discovery.skills import SkillsProcessor as SkillsProcessor
from penstock.processors.discovery.tool_access import ToolAccess as ToolAccess
from penstock.processors.discovery.tool_search import ToolSearchProcessor as ToolSearchProcessor
