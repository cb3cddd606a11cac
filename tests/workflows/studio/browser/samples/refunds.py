"""A shop whose agent asks before it refunds, and a desk that asks about what users write; both store what waits."""

from collections.abc import AsyncIterator
from pathlib import Path

from penstock import Agent, PIIDetector, SQLiteStorage, Tool
from penstock.engine import Chunk, ModelRequest
from penstock.processors.tools import HumanReview
from penstock.testing import ScriptedModel

FOLDER = Path(__file__).parent


class Clerk:
    """A model that asks for a refund, and says that it is done when it has the result."""

    name = "clerk-model"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the answer."""
        done = any(part.type == "tool" for message in request.messages for part in message.parts)
        arguments = {"order": "A-1042", "amount": 49.9, "note": "parcel lost, tell ada@example.com"}
        call = {"text": "I will refund the order.", "tool_calls": [{"name": "refund", "args": arguments}]}
        said = " It is refunded; the money is back in three days." if done else call
        async for chunk in ScriptedModel([said]).stream(request):
            yield chunk


def refund(order: str, amount: float, note: str = "") -> str:
    """Refund an order.

    Args:
        order: the number of the order.
        amount: how much, in EUR.
        note: for the books.
    """
    with (FOLDER / "refunded.txt").open("a") as file:
        file.write(f"{order} {amount} {note}\n")
    return f"{amount} EUR for order {order} are on their way"


store = SQLiteStorage(str(FOLDER / "waiting.db"))
agent = Agent(
    Clerk(),
    name="refunds",
    tools=[Tool(refund, approval=True)],
    processors=[PIIDetector(redaction_method="placeholder")],
    reviews=store,
)
desk = Agent(
    ScriptedModel(["We look into it."]),
    name="desk",
    processors=[
        HumanReview(["input"], question="May this go to the desk?", reviewers=["finance"]),
        PIIDetector(redaction_method="placeholder"),
    ],
    reviews=store,
)
