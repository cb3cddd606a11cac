"""The memory of a gateway over time while clients of endless streams vanish, at any moment of them.

``python benchmarks/gateway/memory.py [--seconds N] [--streams N] [--policy NAME]``. So many streams are open at any
time. Prints a line for each part of the time: the seconds, the memory of the gateway's process in MB, its open files,
and how many streams were opened so far. At the end it waits until the last streams are gone, and prints that line, too.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
from servers import HERE, PATH, POLICIES, body, free_port, process, rss

LONGEST = 10.0
"""After how many seconds a client is gone at the latest."""
_PARTS = 20


async def vanishing(
    pid: int, base: str, seconds: float, streams: int, *, parts: int = 8, longest: float = 2.0
) -> AsyncGenerator[tuple[float, float, int, int]]:
    """Yield the memory over time while clients of endless streams vanish.

    Args:
        pid: the process of the server.
        base: its address.
        seconds: how long it goes on.
        streams: how many streams are open at any time.
        parts: how many lines to yield.
        longest: after how many seconds a client is gone at the latest.

    Yields:
        The seconds that have passed, the memory in MB, the open files, and how many streams were opened.
    """
    began = time.monotonic()
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    data = body(stream=True, endless=True)
    opened = 0

    async def vanish() -> None:
        nonlocal opened
        while time.monotonic() < began + seconds:
            opened += 1
            try:
                async with asyncio.timeout(random.uniform(0.005, longest)):  # noqa: S311 - no secret
                    async with session.post(base + PATH, data=data) as reply:
                        await reply.read()
            except TimeoutError:
                pass

    async with aiohttp.ClientSession(connector=connector, headers={"content-type": "application/json"}) as session:
        tasks = [asyncio.ensure_future(vanish()) for _ in range(streams)]
        for _ in range(parts):
            await asyncio.sleep(seconds / parts)
            yield time.monotonic() - began, rss(pid) / 1000, _files(pid), opened
        await asyncio.gather(*tasks)


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def _run(pid: int, base: str, args: argparse.Namespace) -> None:
    print(f"{'s':>7}{'MB':>9}{'files':>8}{'streams':>9}", flush=True)

    def tell(now: float, megabytes: float, files: int, opened: int) -> None:
        print(f"{now:7.0f}{megabytes:9.1f}{files:8}{opened:9}", flush=True)

    tell(0, rss(pid) / 1000, _files(pid), 0)
    opened = 0
    async for now, megabytes, files, opened in vanishing(
        pid, base, args.seconds, args.streams, parts=_PARTS, longest=LONGEST
    ):
        tell(now, megabytes, files, opened)
    await asyncio.sleep(2)
    tell(args.seconds + 2, rss(pid) / 1000, _files(pid), opened)


def main() -> None:
    """Run it, and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--streams", type=int, default=500, help="how many streams are open (default: 500)")
    parser.add_argument("--policy", default="light", choices=list(POLICIES), help="the guards (default: light)")
    args = parser.parse_args()
    provider, port = free_port(), free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        process(str(HERE / "upstream.py"), str(provider), "0.01", "100", port=provider),
    ):
        policy = POLICIES[args.policy]
        if "\n" in policy:
            policy = str(Path(folder) / "policy.yaml")
            Path(policy).write_text(POLICIES[args.policy])
        upstream = f"http://127.0.0.1:{provider}"
        command = ("-m", "penstock", "serve", policy, "--upstream", upstream, "--port", str(port))
        with process(*command, "--log-format", "none", port=port) as pid:
            asyncio.run(_run(pid, f"http://127.0.0.1:{port}", args))


if __name__ == "__main__":
    main()
