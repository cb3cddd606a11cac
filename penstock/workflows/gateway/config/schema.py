"""The JSON Schema of gateway files, with which editors complete keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.workflows.gateway.config.kinds import section_schema
from penstock.workflows.gateway.config.sections import GatewaySection

if TYPE_CHECKING:
    from penstock.workflows.gateway.config.kinds import Json


def gateway_schema() -> Json:
    """Return the JSON Schema of gateway files, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A gateway file of Penstock",
        "description": "Routes, providers and limits of `penstock serve`. See docs/gateway.md.",
        **section_schema(GatewaySection),
    }
