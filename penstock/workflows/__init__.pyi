from penstock.workflows.agent.agent import Agent as Agent
from penstock.workflows.agent.results import AgentResult as AgentResult, StepResult as StepResult
from penstock.workflows.agent.stream import AgentStream as AgentStream
from penstock.workflows.memory import Memory as Memory
