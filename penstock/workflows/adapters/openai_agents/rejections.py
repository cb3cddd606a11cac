"""`read_results`: results of calls that did not run, such as those that somebody rejected.

The SDK puts a text of the application in the place of the result, and asks no guardrail. It is read where it leaves.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agents import ToolCallItem, ToolCallOutputItem

from penstock.engine.values.frozen import freeze, thaw
from penstock.formats.wire import is_object
from penstock.workflows.adapters.openai_agents.items import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.items import RunItem

    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.openai_agents.running import Guarding


async def read_results(guarding: Guarding, items: Sequence[RunItem]) -> None:
    """Put results into the items of a run as the guards left them; those that were read stay.

    Raises:
        BlockedError: a guard stopped the run.
    """
    names = {_call_id(item): item.tool_name for item in items if isinstance(item, ToolCallItem)}
    for item in items:
        call_id = _call_id(item)
        if isinstance(item, ToolCallOutputItem) and call_id and call_id not in guarding.read:
            await _read(guarding, item, call_id, names.get(call_id))


def _call_id(item: RunItem) -> str | None:
    raw = getattr(item, "raw_item", None)
    found = raw.get("call_id") if is_object(raw) else getattr(raw, "call_id", None)
    return found if isinstance(found, str) else None


async def _read(guarding: Guarding, item: ToolCallOutputItem, call_id: str, name: str | None) -> None:
    raw = plain(item.raw_item)
    said = raw.get("output")
    if said is None or not _may_be_rejected(raw):
        return
    with guarding.noted():
        left = await guarding.request.tool_result(name or "", freeze(said), call_id)
    guarding.read.add(call_id)
    if left != freeze(said):
        now: Value = thaw(left)
        item.output = now
        item.raw_item = {**raw, "output": now if isinstance(now, type(said)) else json.dumps(now, ensure_ascii=False)}


def _may_be_rejected(raw: Json) -> bool:
    """Return whether a result may be one that nobody has read, though its call is none that was.

    What editors and computers do is read without the id of the call; a rejected patch has failed.
    """
    kind = raw.get("type")
    return kind != "computer_call_output" and (kind != "apply_patch_call_output" or raw.get("status") == "failed")
