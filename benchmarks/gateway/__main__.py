"""What the gateway costs beside a bare pass-through of the same server and client library.

``python benchmarks/gateway [--seconds N] [--rounds N] [--streams N]``. CPU time is that of the server's process, so
that clients and provider on the same cores do not count. Guards' own cost is taken out in two ways: the same workflow
beside a pass-through in such a server (`passthrough.py` with a policy), which is what the gateway is compared with; and
alone in this process, where nothing pushes it out of the caches of the CPU, so that it costs about half as much.
"""

import argparse
import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

HERE = Path(__file__).parent
PATH = "/v1/chat/completions"
CHUNKS = 100
POLICIES = {
    "light": "penstock: 1\nsteps: [{use: regex-filter, with: {rules: [{name: word, pattern: forbidden}]}}]\n",
    "privacy": "privacy",
}


def body(*, stream: bool = False, endless: bool = False) -> bytes:
    """Return a request."""
    made = {"model": "fake-1", "messages": [{"role": "user", "content": "Say some words, please. " * 5}]}
    return json.dumps({**made, **({"stream": True} if stream else {}), **({"seed": 1} if endless else {})}).encode()


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def process(*command: str, port: int) -> Iterator[int]:
    """Run a command, and yield its process id once it listens."""
    command = (sys.executable, *command)
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - ours
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                if time.monotonic() > until or running.poll() is not None:
                    raise
                time.sleep(0.1)
        yield running.pid
    finally:
        running.kill()
        running.wait()


def cpu(pid: int) -> float:
    """Return the CPU time of a process so far, in seconds, to the microsecond; ``/proc/pid/stat`` has hundredths."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def rss(pid: int) -> float:
    """Return the memory of a process, in kB."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return float(line.split()[1])


async def whole(session: aiohttp.ClientSession, url: str, count: int, at_once: int = 16) -> None:
    """Send requests, and read their answers."""
    data = body()

    async def some(share: int) -> None:
        for _ in range(share):
            async with session.post(url, data=data) as reply:
                answer = await reply.read()
                if reply.status != 200:
                    raise SystemExit(f"status {reply.status}: {answer.decode()}")

    await asyncio.gather(*(some(count // at_once) for _ in range(at_once)))


async def streamed(session: aiohttp.ClientSession, url: str, firsts: list[float]) -> None:
    """Read a stream; add how long its first piece took, in milliseconds."""
    began = time.perf_counter()
    async with session.post(url, data=body(stream=True)) as reply:
        await reply.content.readany()
        firsts.append(1000 * (time.perf_counter() - began))
        await reply.read()


async def measured(pid: int, base: str, rounds: int) -> dict[str, float]:
    """Return the figures of one server."""
    url = base + PATH
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"content-type": "application/json"}) as session:
        await whole(session, url, 320)
        requests, chunks, firsts = [], [], []
        for _ in range(rounds):
            before = cpu(pid)
            await whole(session, url, 960)
            requests.append(1e6 * (cpu(pid) - before) / 960)
            before = cpu(pid)
            await asyncio.gather(*(streamed(session, url, firsts) for _ in range(20)))
            chunks.append((1e6 * (cpu(pid) - before) - 20 * requests[-1]) / (20 * CHUNKS))
        before = rss(pid)
        opened = [await session.post(url, data=body(stream=True, endless=True)) for _ in range(200)]
        for reply in opened:
            await reply.content.readany()
        kilobytes = (rss(pid) - before) / 200
        for reply in opened:
            reply.close()
    return {
        "request": min(requests),
        "chunk": min(chunks),
        "first": statistics.median(firsts),
        "p99": sorted(firsts)[int(len(firsts) * 0.99) - 1],
        "stream": kilobytes,
        "memory": before / 1000,
    }


async def vanishing(pid: int, base: str, seconds: float, streams: int) -> list[float]:
    """Return the memory over time in MB while clients of endless streams vanish, each after up to two seconds."""
    until = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    data = body(stream=True, endless=True)
    seen: list[float] = []

    async def vanish() -> None:
        while time.monotonic() < until:
            async with session.post(base + PATH, data=data) as reply:
                try:
                    async with asyncio.timeout(random.uniform(0.05, 2)):  # noqa: S311 - no secret
                        await reply.read()
                except TimeoutError:
                    pass

    async with aiohttp.ClientSession(connector=connector, headers={"content-type": "application/json"}) as session:
        tasks = [asyncio.ensure_future(vanish()) for _ in range(streams)]
        while time.monotonic() < until:
            await asyncio.sleep(seconds / 8)
            seen.append(rss(pid) / 1000)
        await asyncio.gather(*tasks)
    return seen


async def guards_alone(policy: str, rounds: int) -> tuple[float, float]:
    """Return the cost of the guards without a gateway, in the stages that it runs: µs a request, and µs a chunk."""
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import FrozenDict
    from penstock.engine.values.model import ModelRequest
    from penstock.workflows.gateway.prompt import ProviderModel
    from penstock.workflows.loading import load_workflow

    workflow = load_workflow(policy)
    text, words = "Say some words, please. " * 5, [" word"] * CHUNKS
    info = {"model": ProviderModel("fake-1"), "request": ModelRequest(()), "chunks": None, "from_cache": False}
    about = {**info, "finish_reason": "stop", "usage": None, "tool_calls": None}
    requests, chunks = [], []

    async def once(pieces: list[str]) -> None:
        async with workflow.start() as run:
            await run.process_input(text)
            source = [Chunk("text-delta", text=one, id="t") for one in pieces]
            async with run.process_output_stream(source, release="live", last=False, **info) as stream:
                async for _ in stream:
                    pass
            message = run.message_list.completed(stream.message)
            await run.judge_step(message, FrozenDict(about))
            await run.process_output_result(None, finish_reason="stop", usage=None)

    await once(words)
    for _ in range(rounds):
        began = time.process_time()
        for _ in range(200):
            await once(["word " * 20])
        requests.append(1e6 * (time.process_time() - began) / 200)
        began = time.process_time()
        for _ in range(20):
            await once(words)
        chunks.append((1e6 * (time.process_time() - began) / 20 - requests[-1]) / CHUNKS)
    return min(requests), min(chunks)


def row(name: str, found: dict[str, float]) -> str:
    """Return a line of the table."""
    return (
        f"{name:24}{found['request']:9.0f}{found['chunk']:9.1f}{found['first']:9.2f}{found['p99']:9.2f}"
        f"{found['stream']:9.1f}{found['memory']:9.0f}"
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=16, help="how long clients vanish (default: 16)")
    parser.add_argument("--streams", type=int, default=100, help="how many streams are open then (default: 100)")
    parser.add_argument("--rounds", type=int, default=3, help="the least of so many rounds counts (default: 3)")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=URL=PID", help="a further server")
    args = parser.parse_args()
    provider, bare = free_port(), free_port()
    print(f"{'':24}{'µs/req':>9}{'µs/chunk':>9}{'first ms':>9}{'p99':>9}{'kB/strm':>9}{'MB':>9}")
    with process(str(HERE / "upstream.py"), str(provider), "0.01", str(CHUNKS), port=provider):
        upstream = f"http://127.0.0.1:{provider}"
        with process(str(HERE / "passthrough.py"), str(bare), upstream, port=bare) as pid:
            least = asyncio.run(measured(pid, f"http://127.0.0.1:{bare}", args.rounds))
            print(row("bare pass-through", least))
        with tempfile.TemporaryDirectory() as folder:
            for name, policy in POLICIES.items():
                file = policy
                if "\n" in policy:
                    file = str(Path(folder) / f"{name}.yaml")
                    Path(file).write_text(policy)
                _gateway(name, file, upstream, least, args)
    for other in args.other:
        name, url, pid = other.split("=")
        print(row(name, asyncio.run(measured(int(pid), url, args.rounds))))


def _gateway(name: str, policy: str, upstream: str, least: dict[str, float], args: argparse.Namespace) -> None:
    beside, port = free_port(), free_port()
    with process(str(HERE / "passthrough.py"), str(beside), upstream, policy, port=beside) as pid:
        guarded = asyncio.run(measured(pid, f"http://127.0.0.1:{beside}", args.rounds))
        print(row(f"bare, {name} beside it", guarded))
    command = ("-m", "penstock", "serve", policy, "--upstream", upstream, "--port", str(port), "--log-format", "none")
    with process(*command, port=port) as pid:
        base = f"http://127.0.0.1:{port}"
        found = asyncio.run(measured(pid, base, args.rounds))
        print(row(f"gateway, {name}", found))
        own = asyncio.run(guards_alone(policy, args.rounds))
        print(
            f"  the gateway adds {found['request'] - guarded['request']:.0f} µs a request and "
            f"{found['chunk'] - guarded['chunk']:.1f} µs a chunk to a pass-through with its guards; these add "
            f"{guarded['request'] - least['request']:.0f} and {guarded['chunk'] - least['chunk']:.1f}, "
            f"and alone in an idle process {own[0]:.0f} and {own[1]:.1f}"
        )
        if name == "light":
            seen = asyncio.run(vanishing(pid, base, args.seconds, args.streams))
            print(
                f"  {args.streams} streams whose clients vanish, MB over time: {' '.join(f'{one:.0f}' for one in seen)}"
            )


if __name__ == "__main__":
    main()
