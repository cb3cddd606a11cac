"""One process of several that go on with the same runs of a framework; see `test_host_reviews`.

    python -m tests.workflows.adapters.host_racing FRAMEWORK FOLDER

The folder has the store ``runs.db``, and what the framework holds of each run in ``held-ORDER``. The process says that
it is ready, waits for a line, and goes on with all runs in their order. Each refund is a line in ``ran``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from penstock import SQLiteStorage
from tests.workflows.adapters.review_shops import SHOPS


class Marks(list[Any]):
    """A list whose additions are lines of a file, also if the process is killed behind them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def append(self, one: Any) -> None:
        """Add a line."""
        os.write(self._file, f"{one}\n".encode())


async def _main(framework: str, folder: Path) -> None:
    store = SQLiteStorage(folder / "runs.db")
    held = sorted(folder.glob("held-*"))  # noqa: ASYNC240 - before the race
    shops: list[Any] = []
    for path in held:
        order = int(path.name.removeprefix("held-"))
        shop = SHOPS[framework](store, orders=(order,), held=json.loads(path.read_text("utf-8")))
        shop.ran = Marks(folder / "ran")
        shops.append(shop)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for shop in shops:
        await shop.own(approves=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
