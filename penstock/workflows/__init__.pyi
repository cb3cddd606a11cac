"""What puts processors together: the agent, its memory, presets, the command line."""

from penstock.workflows.agent.agent import Agent as Agent
from penstock.workflows.agent.results import AgentResult as AgentResult
from penstock.workflows.agent.results import StepResult as StepResult
from penstock.workflows.agent.stream import AgentStream as AgentStream
from penstock.workflows.memory import Memory as Memory
