"""`penstock serve` as a process."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio


@asynccontextmanager
async def served(
    *arguments: str, cwd: Path, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command as a process; yields it and its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", "serve", *arguments, "--port", "0",
        cwd=cwd, env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        said = b""
        with anyio.fail_after(60):  # also if it has said something else first, and goes on
            while b"Penstock gateway: http" not in (line := await process.stderr.readline()):
                said += line
                assert line, said.decode()
        yield process, line.decode().split()[-1]
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()  # reads its log: else asyncio stops at 128 kB, and waits for ever
