"""A program: an agent of pydantic-ai with guards in a Temporal workflow, which is refused; prints why, and its history.

Argument: the address of a server.
"""

from __future__ import annotations

import json
import sys

import anyio
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.temporal import AgentPlugin, PydanticAIPlugin, TemporalDurability
    from pydantic_ai.models.test import TestModel

    from penstock import PIIDetector
    from penstock.workflows.adapters.pydantic_ai import as_capability
    from tests.workflows.durable.world import SECRET

guard = as_capability(PIIDetector(), id="guard")
agent = Agent(TestModel(), name="refused", capabilities=[guard, TemporalDurability()])


@workflow.defn
class Answer:
    """Asks the agent."""

    @workflow.run
    async def run(self) -> str:
        """Ask."""
        return (await agent.run(f"I am {SECRET}")).output


async def main(address: str) -> None:
    """Run the workflow."""
    client = await Client.connect(address, plugins=[PydanticAIPlugin()])
    async with Worker(client, task_queue="refused", workflows=[Answer], plugins=[AgentPlugin(agent)]):
        handle = await client.start_workflow(Answer.run, id="refused", task_queue="refused")
        try:
            said = await handle.result()
        except WorkflowFailureError as error:
            said = str(error.cause)
    history = (await handle.fetch_history()).to_json()
    sys.stdout.write(json.dumps({"said": said, "leaks": SECRET in history, "activities": "activityType" in history}))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
