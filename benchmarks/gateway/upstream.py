"""A fake provider that costs little: chat completions or Anthropic's messages, whole or streamed at a steady pace.

Run with the seconds between two chunks and their number: ``python upstream.py PORT 0.01 100``. A stream whose request
has ``"seed": 1``, or ``"top_k": 1`` for messages, never ends, and has a twentieth of the pace.
"""

import asyncio
import json
import sys

FRAME = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1"}


def framed(body: object, kind: str = "") -> bytes:
    """Return an event as a chunk of HTTP."""
    head = f"event: {kind}\n".encode() if kind else b""
    data = head + b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(delta: dict[str, str], reason: str | None = None) -> bytes:
    """Return a chunk of chat completions as a chunk of HTTP."""
    return framed({**FRAME, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def step(kind: str, **data: object) -> bytes:
    """Return an event of Anthropic's messages as a chunk of HTTP."""
    return framed({"type": kind, **data}, kind)


def whole(answer: object) -> bytes:
    """Return a whole answer as a response of HTTP."""
    data = json.dumps(answer).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


CHAT = whole(
    {
        **FRAME,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 20}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25},
    }
)
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake-1", "content": []}
MESSAGE |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 20}}
MESSAGES = whole({**MESSAGE, "content": [{"type": "text", "text": "word " * 20}], "stop_reason": "end_turn"})
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
CHAT_STREAM = b"", event({"content": " word"}), event({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n" + LAST
MESSAGES_STREAM = (
    step("message_start", message=MESSAGE)
    + step("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    step("content_block_delta", index=0, delta={"type": "text_delta", "text": " word"}),
    step("content_block_stop", index=0)
    + step("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 20})
    + step("message_stop")
    + LAST,
)
"""The beginning of a stream, a chunk with a piece of text, and the end."""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer requests until the client leaves."""
    pause, count = float(sys.argv[2]), int(sys.argv[3])
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            body = json.loads(await reader.readexactly(length) or b"{}")
            messages = b"/messages" in head.partition(b"\r\n")[0]
            if not body.get("stream"):
                writer.write(MESSAGES if messages else CHAT)
                continue
            begin, chunk, end = MESSAGES_STREAM if messages else CHAT_STREAM
            writer.write(HEAD + begin + chunk)
            sent = 1
            endless = 1 in (body.get("seed"), body.get("top_k"))
            while endless or sent < count:
                await asyncio.sleep(20 * pause if endless else pause)
                writer.write(chunk)
                sent += 1
                if writer.is_closing():
                    return
                await writer.drain()
            writer.write(end)
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
