"""Agents: a model with tools, and processors at every stage of a request."""

from __future__ import annotations

from penstock.workflows.agent.agent import Agent as Agent
from penstock.workflows.agent.results import AgentResult as AgentResult, StepResult as StepResult
from penstock.workflows.agent.stream import AgentStream as AgentStream
