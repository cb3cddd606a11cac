"""What being listened to costs: ten steps with records, and with an observer, against the same run with neither."""

from __future__ import annotations

from typing import Any

from harness import Contest, Timed, Work
from shared import TEXT, Looks, chain

from penstock.engine import Record

FLOOR_IS = "the same workflow and no one listens"


class Listener:
    """An observer that keeps nothing."""

    def on_record(self, record: Record) -> None:
        """Look at the record."""


async def contests() -> list[Contest]:
    """Return the contests; each request is a run of its own, as records are kept as long as the run."""
    workflow = chain(Looks)

    def work(**options: Any) -> Work:
        async def request(times: int) -> str:
            text = ""
            for _ in range(times):
                text = (await workflow.start(**options).process_input(TEXT)).text
            return text

        return request

    silent = work()
    return [
        Contest("a request of 10 steps with records", FLOOR_IS, work(records=True), silent),
        Contest("a request of 10 steps with an observer", FLOOR_IS, work(observers=[Listener()]), silent),
    ]


SCENARIO = Timed("records", contests)
