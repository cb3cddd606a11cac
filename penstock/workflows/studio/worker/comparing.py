"""What two workflows or agents differ in, as text and as a picture."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.worker.loaded import Loaded


def difference(one: Loaded, other: Loaded) -> Json:
    """Return what differs."""
    if one.workflow is not None and other.workflow is not None:
        found = one.workflow.diff(other.workflow)
        return {"diff": {"same": found.same, "text": str(found), "svg": found.draw("svg")}}
    texts = [_text(each).splitlines() for each in (one, other)]
    lines = difflib.unified_diff(texts[0], texts[1], one.name, other.name, lineterm="")
    return {"diff": {"same": texts[0] == texts[1], "text": "\n".join(lines), "svg": None}}


def _text(loaded: Loaded) -> str:
    if loaded.agent is not None and loaded.agent.plans is None:
        return ""
    return loaded.draw("json")
