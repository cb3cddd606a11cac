"""What breaks in the middle of writing: processes that are killed, a server that is stopped; also at length, by hand.

python -m tests.stores.postgres.breaking [KILLS] [RESTARTS]
"""

import random
import subprocess
import sys
from pathlib import Path

import anyio

from penstock.stores.postgres import PostgresStorage
from tests.stores.postgres.servers import Server, running
from tests.stores.postgres.writing import THREADS, check, write

ROOT = Path(__file__).parents[3]
ENDLESS = 1_000_000


def started(url: str, schema: str, name: str, tasks: int, turns: int) -> subprocess.Popen[bytes]:
    """Start a process that writes."""
    module = "tests.stores.postgres.writing"
    command = [sys.executable, "-m", module, url, schema, name, str(tasks), str(turns)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def told(output: bytes) -> set[str]:
    """Return the pairs of the whole lines of an output."""
    return set(output.decode().rpartition("\n")[0].split())


def _killed(url: str, schema: str, name: str, lines: int) -> set[str]:
    """Kill a process once it has told of so many pairs; return all that it has told of."""
    process = started(url, schema, name, 12, ENDLESS)
    assert process.stdout is not None
    with process.stdout as output:
        first = b"".join(output.readline() for _ in range(lines))
        process.kill()
        rest = output.read()
    process.wait()
    return told(first + rest)


async def kill(url: str, schema: str, times: int, seed: int = 7) -> tuple[int, int]:
    """Kill writers at random moments; return how many pairs were acknowledged, and how many are there."""
    choose = random.Random(seed)  # noqa: S311 - moments, no secrets
    known: set[str] = set()
    async with PostgresStorage(url, schema=schema) as store:
        for number in range(times):
            lines = choose.randrange(1, 120)
            known |= await anyio.to_thread.run_sync(_killed, url, schema, f"k{number}", lines)
            with anyio.fail_after(60):  # nobody holds a lock that died
                await write(store, f"o{number}", THREADS, 1, known.add, lambda: False)
        return len(known), await check(store, known)


async def restart(server: Server, schema: str, times: int) -> tuple[int, int]:
    """Restart the server while tasks write; return how many pairs were acknowledged, and how many are there."""
    known: set[str] = set()
    turned = anyio.Event()
    is_over = False

    def tell(pair: str) -> None:
        nonlocal turned
        known.add(pair)
        turned.set()
        turned = anyio.Event()

    async with PostgresStorage(server.url, schema=schema, retry_for=60) as store:
        async with anyio.create_task_group() as group:
            group.start_soon(write, store, "r", 60, ENDLESS, tell, lambda: is_over)
            for number in range(times):
                enough = len(known) + 150
                while len(known) < enough:
                    await turned.wait()
                await server.restart("immediate" if number % 2 else "fast")
            enough = len(known) + 150
            while len(known) < enough:
                await turned.wait()
            is_over = True
        return len(known), await check(store, known)


async def _main(kills: int, restarts: int) -> None:
    with running() as server:
        pairs = await kill(server.url, "killing", kills)
        sys.stdout.write(f"{kills} kills: {pairs[0]} pairs acknowledged, all of {pairs[1]} are there and whole\n")
        pairs = await restart(server, "restarting", restarts)
        sys.stdout.write(f"{restarts} restarts: {pairs[0]} pairs acknowledged, all of {pairs[1]} are there and whole\n")


if __name__ == "__main__":
    anyio.run(_main, *[int(count) for count in [*sys.argv[1:], "20", "20"][:2]])
