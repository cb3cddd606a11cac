"""The modules whose scenarios are played; importing them enters these into the frame. It knows no scenario."""

from __future__ import annotations

from tests.conformance.runtime import (
    configuration,
    failures,
    lifecycle,
    messages,
    parallels,
    retries,
    storing,
    streaming,
    streams_around,
    verdicts,
    workflows,
)

SCENARIO_MODULES = (
    configuration,
    failures,
    lifecycle,
    messages,
    parallels,
    retries,
    storing,
    streaming,
    streams_around,
    verdicts,
    workflows,
)
