"""A program: a request that is stored from its start, killed at each of its lines and taken up; prints how many."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.workflows.review import Reviews
from tests.workflows.durable.world import QUESTION, THREAD, Diary, Noting, agent, kill_everywhere


def _reviews(folder: Path, diary: Diary) -> Reviews:
    store = Noting(folder / "runs.db")
    store.diary = diary
    return Reviews(store, from_start=True, lease=0.001)


async def first(folder: Path, diary: Diary) -> None:
    """Send the request."""
    made = agent(folder, diary, reviews=_reviews(folder, diary))
    done = await made.generate(QUESTION, thread_id=THREAD, resource_id="ann", run_id="run-1")
    assert done.status == "success"


async def second(folder: Path, diary: Diary) -> None:
    """Go on with the runs whose process has died."""
    reviews = _reviews(folder, diary)
    made = agent(folder, diary, reviews=reviews)
    for run in await reviews.abandoned(agent="agent"):
        assert (await made.resume(run.run_id)).status == "success"


if __name__ == "__main__":
    sys.stdout.write(str(kill_everywhere(Path(sys.argv[1]), first, second, ["runs.db"])))
