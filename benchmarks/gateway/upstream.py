"""A fake provider that costs little: chat completions, whole or as a stream of chunks at a steady pace.

Run with the seconds between two chunks and their number: ``python upstream.py PORT 0.01 100``. A stream whose request
has ``"seed": 1`` never ends, and has a twentieth of the pace.
"""

import asyncio
import json
import sys

FRAME = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1"}


def event(delta: dict[str, str], reason: str | None = None) -> bytes:
    """Return a chunk of a stream as a chunk of HTTP."""
    body = {**FRAME, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    data = b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = json.dumps(
    {
        **FRAME,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 20}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25},
    }
).encode()
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = event({"content": " word"})
DONE = event({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests until the client leaves."""
    pause, count = float(sys.argv[2]), int(sys.argv[3])
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            body = json.loads(await reader.readexactly(length) or b"{}")
            if not body.get("stream"):
                writer.write(WHOLE)
                continue
            writer.write(HEAD + CHUNK)
            sent = 1
            endless = body.get("seed") == 1
            while endless or sent < count:
                await asyncio.sleep(20 * pause if endless else pause)
                writer.write(CHUNK)
                sent += 1
                if writer.is_closing():
                    return
                await writer.drain()
            writer.write(DONE)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=2048)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
