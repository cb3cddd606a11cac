"""What the gateway costs beside a bare pass-through of the same server and client library.

``python benchmarks/gateway [--rounds N] [--path PATH] [--policies NAME …] [--other NAME=URL=PID]``. CPU time is that of
the server's process, so that clients and provider on the same cores do not count. Guards' own cost is taken out in two
ways: the same workflow beside a pass-through in such a server (`passthrough.py` with a policy), which is what the
gateway is compared with; and alone in this process, where nothing pushes it out of the caches of the CPU, so that it
costs about half as much.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from servers import CHUNKS, HERE, MESSAGES, PATH, POLICIES, body, cpu, free_port, process, rss


async def whole(session: aiohttp.ClientSession, url: str, path: str, count: int, at_once: int = 16) -> None:
    """Send requests, and read their answers."""
    data = body(path)

    async def some(share: int) -> None:
        for _ in range(share):
            async with session.post(url + path, data=data) as reply:
                answer = await reply.read()
                if reply.status != 200:
                    raise SystemExit(f"status {reply.status}: {answer.decode()}")

    await asyncio.gather(*(some(count // at_once) for _ in range(at_once)))


async def streamed(session: aiohttp.ClientSession, url: str, path: str, firsts: list[float]) -> None:
    """Read a stream; add how long its first piece took, in milliseconds."""
    began = time.perf_counter()
    async with session.post(url + path, data=body(path, stream=True)) as reply:
        await reply.content.readany()
        firsts.append(1000 * (time.perf_counter() - began))
        await reply.read()


@dataclass
class Server:
    """A server, and what was measured of it so far.

    Attributes:
        name: its name.
        pid: its process.
        base: its address.
        requests: the CPU time of a request with a whole answer, in µs, of each round.
        chunks: that of a chunk of a stream.
        firsts: how long the first pieces of streams took, in milliseconds.
        stream: the memory of an open stream, in kB.
    """

    name: str
    pid: int
    base: str
    requests: list[float] = field(default_factory=list[float])
    chunks: list[float] = field(default_factory=list[float])
    firsts: list[float] = field(default_factory=list[float])
    stream: float = 0.0

    def row(self) -> str:
        """Return a line of the table."""
        late = sorted(self.firsts)[int(len(self.firsts) * 0.99) - 1]
        return (
            f"{self.name:26}{min(self.requests):8.0f}{statistics.median(self.requests):8.0f}{min(self.chunks):9.1f}"
            f"{statistics.median(self.firsts):9.2f}{late:9.2f}{self.stream:9.1f}{rss(self.pid) / 1000:9.0f}"
        )


async def measure(servers: Sequence[Server], path: str, rounds: int) -> None:
    """Measure servers in turns, so that a machine which is busy for a while is so for all of them."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"content-type": "application/json"}) as session:
        for server in servers:
            await whole(session, server.base, path, 320)
        for _ in range(rounds):
            for server in servers:
                before = cpu(server.pid)
                await whole(session, server.base, path, 480)
                server.requests.append(1e6 * (cpu(server.pid) - before) / 480)
                before = cpu(server.pid)
                await asyncio.gather(*(streamed(session, server.base, path, server.firsts) for _ in range(20)))
                spent = 1e6 * (cpu(server.pid) - before)
                server.chunks.append((spent - 20 * server.requests[-1]) / (20 * CHUNKS))
        for server in servers:
            before = rss(server.pid)
            data = body(path, stream=True, endless=True)
            opened = [await session.post(server.base + path, data=data) for _ in range(200)]
            for reply in opened:
                await reply.content.readany()
            server.stream = (rss(server.pid) - before) / 200
            for reply in opened:
                reply.close()


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


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="the least of so many rounds counts (default: 3)")
    parser.add_argument("--path", default=PATH, choices=[PATH, MESSAGES], help=f"the endpoint (default: {PATH})")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=list(POLICIES), help="the guards")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=URL=PID", help="a further server")
    args = parser.parse_args()
    with ExitStack() as running:
        provider = free_port()
        upstream = f"http://127.0.0.1:{provider}"
        running.enter_context(process(str(HERE / "upstream.py"), str(provider), "0.01", str(CHUNKS), port=provider))

        def started(name: str, *command: str, port: int) -> Server:
            return Server(name, running.enter_context(process(*command, port=port)), f"http://127.0.0.1:{port}")

        def passing(name: str, *more: str) -> Server:
            port = free_port()
            return started(name, str(HERE / "passthrough.py"), str(port), upstream, *more, port=port)

        servers = [passing("bare pass-through"), passing("that reads and writes", "--reads")]
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        policies: dict[str, str] = {}
        for name in args.policies:
            policies[name] = POLICIES[name]
            if "\n" in POLICIES[name]:
                policies[name] = str(folder / f"{name}.yaml")
                Path(policies[name]).write_text(POLICIES[name])
            port = free_port()
            command = ("-m", "penstock", "serve", policies[name], "--upstream", upstream, "--port", str(port))
            servers.append(passing(f"bare, {name} beside it", policies[name]))
            servers.append(started(f"gateway, {name}", *command, "--log-format", "none", port=port))
        servers += [Server(name, int(pid), url) for name, url, pid in (other.split("=") for other in args.other)]
        asyncio.run(measure(servers, args.path, args.rounds))
        _print(servers, policies, args.rounds)


def _print(servers: Sequence[Server], policies: Mapping[str, str], rounds: int) -> None:
    print(f"{'':26}{'µs/req':>8}{'median':>8}{'µs/chunk':>9}{'first ms':>9}{'p99':>9}{'kB/strm':>9}{'MB':>9}")
    for server in servers:
        print(server.row())
    by_name = {server.name: server for server in servers}
    for name, policy in policies.items():
        beside, gateway = by_name[f"bare, {name} beside it"], by_name[f"gateway, {name}"]
        own = asyncio.run(guards_alone(policy, rounds))
        print(
            f"{name}: the gateway adds {min(gateway.requests) - min(beside.requests):.0f} µs a request (medians: "
            f"{statistics.median(gateway.requests) - statistics.median(beside.requests):.0f}) and "
            f"{min(gateway.chunks) - min(beside.chunks):.1f} µs a chunk to a pass-through with its guards; alone in an "
            f"idle process these cost {own[0]:.0f} and {own[1]:.1f}"
        )


if __name__ == "__main__":
    main()
