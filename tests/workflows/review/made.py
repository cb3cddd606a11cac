"""An agent with a tool that needs approval, as several processes would make it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock import Agent, PIIDetector, Tool
from penstock.engine.values.frozen import thaw
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import RunStore

SECRET = "ann@example.com"
CALLS: dict[str, Value] = {
    "text": "I will refund it.",
    "tool_calls": [{"name": "refund", "args": {"order": 7, "note": f"for {SECRET}"}}],
}


class Shop:
    """Refunds orders, and remembers which."""

    def __init__(self) -> None:
        self.refunded: list[tuple[int, str]] = []

    def refund(self, order: int, note: str = "") -> str:
        """Refund an order."""
        self.refunded.append((order, note))
        return f"refunded {order}, told {SECRET}"


def agent(
    store: RunStore | Reviews,
    answers: Sequence[Value],
    shop: Shop,
    *tools: Tool,
    repeatable: bool = False,
    **options: Value,
) -> Agent:
    """Return an agent as one process makes it; its model gives these answers."""
    given = {"processors": [PIIDetector()], **options}
    refund = Tool(shop.refund, approval=True, repeatable=repeatable)
    return Agent(ScriptedModel(list(answers)), tools=[refund, *tools], reviews=store, **given)


async def stored_text(store: RunStore, run_id: str) -> str:
    """Return what is stored of a run, as text."""
    found = await store.run(run_id)
    assert found is not None
    return json.dumps(thaw(dict(found.body)), ensure_ascii=False)
