"""Agents whose requests are DBOS workflows: ``DurableAgent(agent)``, made before ``DBOS.launch()``. Extra ``dbos``."""

from __future__ import annotations

from penstock.workflows.adapters.dbos.agent import DBOSOperations, DurableAgent, DurableResult

__all__ = ["DBOSOperations", "DurableAgent", "DurableResult"]
