"""`MessageGuard`: the values that guards read in the protocol's messages, and their guarded versions, on any transport.

The server is a stranger. Messages to it pass `process_tool_call`, and messages from it `process_tool_result`: for
a tool under its name, for anything else under the name of its method. Left out are numbers, and strings that
only software reads: ids, tokens, cursors, versions.
"""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.execution.boundary import log
from penstock.engine.values.frozen import equal, freeze, is_items, is_mapping, thaw
from penstock.engine.values.messages import Message, TextPart
from penstock.engine.values.texts import leaves, rewrite
from penstock.engine.values.tripwire import BlockedError
from penstock.workflows.adapters.mcp.objects import (
    as_object,
    is_clients_own,
    is_opaque,
    is_servers_own,
    merged,
    shown_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.tripwire import Tripwire
    from penstock.formats.wire import Json
    from penstock.workflows.hosting import Host, HostRequest


Descriptions = Literal["result", "input", "trusted"]

BLOCKED_TEXT = "The request was blocked."
"""What client and server are told of a verdict. It helps nobody to get past a guard."""

BLOCKED_CODE = -32010
"""The code of errors that stand for a verdict: free for implementations, and not used by the official packages."""

MODERN = "io.modelcontextprotocol/protocolVersion"
"""The key under which each request says its version, from 2026-07-28 on."""

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""The methods that list what a server offers, with the key of the list."""

_GREETINGS = ("initialize", "server/discover")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_METHOD = re.compile(r"[\w$./-]{1,128}", re.ASCII)
_WITHOUT_TEXT = {
    "notifications/cancelled": ("requestId",),
    "notifications/progress": ("progressToken", "progress", "total"),
}
"""Notifications that go on without their text if it is blocked, with what is left then."""


class RefusedError(Exception):
    """A message does not pass. The message of the error may be shown to anybody."""

    def __init__(self) -> None:
        super().__init__(BLOCKED_TEXT)


@dataclass(slots=True)
class GuardedCall:
    """A request of the client, on its way to the server and back.

    Attributes:
        method: its method.
        id: its id.
        modern: whether its result says which kind of result it is, as from 2026-07-28 on.
        name: what guards know it by.
        arguments: what guards have let go to the server.
        request: the request of the stages; None if nothing was read.
        answer: the result that a processor gave in the server's place.
    """

    method: str
    id: str
    modern: bool = False
    name: str = ""
    arguments: Value = None
    request: HostRequest | None = None
    answer: Json | None = None


class MessageGuard:
    """The guards of one session.

    Its methods raise a `RefusedError` if a message must not pass.

    Args:
        host: the processors.
        descriptions: what reads the server's descriptions.
        shares_state: whether the messages of the session share the state of processors.
        ends: whether a verdict ends the session.
        context: values that hooks share.
        on_tripwire: called with each verdict and its method.
        tools: the tools that were listed, and whether they may be called; shared by sessions. Once there are some, the
            name of any other tool is read as a text.

    Attributes:
        ended: whether a verdict has ended the session; nothing passes then.
    """

    def __init__(
        self,
        host: Host,
        *,
        descriptions: Descriptions = "result",
        shares_state: bool = True,
        ends: bool = False,
        context: Mapping[str, Value] | None = None,
        on_tripwire: Callable[[Tripwire, str], object] | None = None,
        tools: dict[str, bool] | None = None,
    ) -> None:
        self.ended = False
        self._host = host
        self._descriptions = descriptions
        self._states: dict[str, Value] | None = {} if shares_state else None
        self._ends = ends
        self._context = dict(context or {})
        self._on_tripwire = on_tripwire
        self._tools: dict[str, bool] = {} if tools is None else tools

    # From the client

    async def asked(self, call: GuardedCall, params: Json | None) -> Json | None:
        """Return the parameters of a request for the server, after the guards.

        If a processor has answered in the server's place, that is in ``call.answer``.
        """
        self._check(call.method)
        call.name = call.method
        if not params or call.method == "initialize":  # what the client's software says of itself
            return params
        name = params.get("name")
        if call.method != "tools/call" or not isinstance(name, str):
            return await self._asked_whole(call, params, params)
        listed = self._tools.get(name)
        if listed is False or name == call.method:  # processors would take it for the method itself
            raise self._refused(call.method, None, "the tool was left out of the list")
        call.name = name
        known = listed or (not self._tools and _TOOL_NAME.fullmatch(name) is not None)
        rest = {key: item for key, item in params.items() if key != "arguments" and not (known and key == "name")}
        made = await self._asked_whole(call, params, rest)
        async with self._stages(call.method, call) as request:
            given = freeze(params.get("arguments"))
            checked = await request.tool_call(name, {} if given is None else given, call.id)
            call.arguments = checked.arguments
            if checked.answered:
                call.answer = _answer(checked.answer, is_error=checked.is_error, modern=call.modern)
            elif not equal(checked.arguments, {} if given is None else given):
                left = thaw(checked.arguments)
                made = {**(made or {}), "arguments": as_object(left) if is_mapping(given or {}) else left}
        return made

    async def _asked_whole(self, call: GuardedCall, params: Json, read: Json) -> Json:
        """Return the parameters after guards have read some of them, as those of a call of the method."""
        shown = shown_of(read, is_clients_own)
        if not shown:
            return params
        async with self._stages(call.method, call) as request:
            left = await self._sent(request, call.method, shown, call.id)
            call.arguments = left
            if equal(left, freeze(shown)):
                return params
            unread = {key: item for key, item in params.items() if key not in read}
            return {**unread, **merged(read, as_object(thaw(left)), is_clients_own)}

    async def told_server(self, method: str, value: Json | None, id: str = "") -> Json | None:
        """Return a message of the client beside its requests, after the guards.

        Args:
            method: the method of a notification, or of the server's request that is answered.
            value: its parameters, or the result.
            id: the id of the request.
        """
        return await self._told(
            method, value, is_clients_own, lambda request, given: self._sent(request, method, given, id)
        )

    async def _sent(self, request: HostRequest, method: str, shown: Json, id: str) -> Value:
        checked = await request.tool_call(method, freeze(shown), id)
        if checked.answered:
            raise TypeError(f"a processor answered {method}, of which only the server can make the result")
        return checked.arguments

    # From the server

    async def answered(self, call: GuardedCall, result: Json) -> Json:
        """Return a result for the client, after the guards."""
        self._check()
        if call.method in LISTS:
            return await self._listed(call, result, LISTS[call.method])
        if call.method in _GREETINGS:
            return result if self._descriptions == "trusted" else await self._described(call, result)
        if call.method == "tools/call":
            return await self._tool_result(call, result)
        async with self._stages(call.method, call) as request:
            return await self._received(request, call, result)

    async def failed(self, call: GuardedCall, error: Json) -> Json:
        """Return an error (``code``, ``message``, ``data``) for the client, after the guards."""
        self._check()
        async with self._stages(call.method, call) as request:
            told = str(error.get("message", ""))
            said = await request.tool_result(call.name, told, call.id, arguments=call.arguments, is_error=True)
            made = {**error, "message": said if isinstance(said, str) else json.dumps(thaw(said))}
            if error.get("data") is not None:
                given = freeze(error["data"])
                left = await request.tool_result(call.name, given, call.id, arguments=call.arguments)
                made["data"] = thaw(left)
        return made

    async def told_client(self, method: str, params: Json | None, id: str = "") -> Json | None:
        """Return a notification or request of the server, after the guards."""
        return await self._told(
            method, params, is_servers_own, lambda request, given: request.tool_result(method, freeze(given), id)
        )

    async def _told(
        self,
        method: str,
        value: Json | None,
        own: Callable[[str, object], bool],
        read: Callable[[HostRequest, Json], Awaitable[Value]],
    ) -> Json | None:
        """Return a message beside requests and results, after the guards."""
        self._check(method)
        shown = shown_of(value or {}, own)
        if not shown or value is None:
            return value
        try:
            async with self._stages(method) as request:
                left = await read(request, shown)
                return value if equal(left, freeze(shown)) else merged(value, as_object(thaw(left)), own)
        except RefusedError:
            return self._without_text(method, value)

    async def _received(self, request: HostRequest, call: GuardedCall, result: Json) -> Json:
        """Return a result after the guards, read as one value."""
        shown = shown_of(result, is_servers_own)
        if not shown:
            return result
        left = await request.tool_result(call.name, freeze(shown), call.id, arguments=call.arguments)
        return result if equal(left, freeze(shown)) else merged(result, as_object(thaw(left)), is_servers_own)

    # Results of tools

    async def _tool_result(self, call: GuardedCall, result: Json) -> Json:
        async with self._stages(call.method, call) as request:
            made = await self._read_result(request, call, result)
            copied = copies_of(result)
            if copied is None or "structuredContent" not in made or copies_of(made) is not None:
                return made
            # The guards have treated the object and its text differently: what the object says now counts.
            agreed = {**made, "content": copied(made["structuredContent"], made)}
            again = await self._read_result(request, call, agreed)
            if again != agreed:
                raise TypeError("text and structuredContent of a result say the same, and guards keep changing one")
            return agreed

    async def _read_result(self, request: HostRequest, call: GuardedCall, result: Json) -> Json:
        """Return a tool's result after the guards: the text alone if it is all that it holds."""
        shown = shown_of(result, is_servers_own)
        content = shown.get("content")
        text = only_text(content) if set(shown) == {"content"} else None
        given = freeze(shown if text is None else text)
        is_error = result.get("isError") is True
        left = await request.tool_result(call.name, given, call.id, arguments=call.arguments, is_error=is_error)
        if equal(left, given):
            return result
        said: Value = thaw(left)
        if is_mapping(said) and (text is None or is_items(said.get("content"))):
            return merged(result, said, is_servers_own)
        words = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return {**merged(result, {}, is_servers_own), "content": [{"type": "text", "text": words}]}

    # Descriptions: what a server says about itself and its tools

    async def _listed(self, call: GuardedCall, result: Json, key: str) -> Json:
        """Return a list without the items that were refused. A tool that is not in it cannot be called."""
        items = result.get(key)
        if self._descriptions == "trusted":
            return result
        if not is_items(items):
            return await self._described(call, result)
        kept: list[Value] = []
        for item in items:
            name = item.get("name") if is_mapping(item) else None
            try:
                left = await self._described(call, item if is_mapping(item) else {"item": item})
            except RefusedError:
                self._check()
                if call.method == "tools/list" and isinstance(name, str):
                    self._tools[name] = False
                continue
            if is_mapping(item):
                if call.method == "tools/list":
                    self._tools |= {str(name): True, str(left.get("name")): True}
                kept.append(left)
        rest = await self._described(call, {name: item for name, item in result.items() if name != key})
        return {name: kept if name == key else rest[name] for name in result if name == key or name in rest}

    async def _described(self, call: GuardedCall, item: Json) -> Json:
        if self._descriptions == "input":
            return await self._as_input(call.method, item)
        async with self._stages(call.method) as request:
            return await self._received(request, call, item)

    async def _as_input(self, method: str, item: Json) -> Json:
        """Return an object after `process_input` has read its strings as the message of a client."""
        shown = shown_of(item, is_servers_own)
        found = list(leaves(freeze(shown)))
        if not found:
            return item
        said = Message("user", tuple(TextPart(text) for _, text in found))
        request = self._host.open(request_context=self._said_of(method))
        async with self._ended_with(request, method):
            if not await request.begin([said]):
                request.check()
            left = request.current([said])[0]
        parts = left.parts if left is not None else ()
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        if len(texts) != len(found) or len(parts) != len(found):
            raise self._refused(method, None, "guards removed a part of it")
        changed = {path: text for (path, before), text in zip(found, texts, strict=True) if text != before}
        return merged(item, thaw(rewrite(freeze(shown), changed)), is_servers_own) if changed else item

    # The stages

    async def close(self, call: GuardedCall, error: BaseException | None = None) -> None:
        """End the request of a call. With an error, it does not count as completed.

        Raises:
            RefusedError: a step failed that ran until the end.
        """
        if call.request is None:
            return
        try:
            await call.request.close(error)
        except Exception as failure:
            raise self._refused_for(call.method, failure) from failure

    @asynccontextmanager
    async def _stages(self, method: str, call: GuardedCall | None = None) -> AsyncGenerator[HostRequest]:
        """Give a request of the stages. One of a call stays open until the call ends.

        Raises:
            RefusedError: a guard stopped it, or failed.
        """
        self._check()
        try:
            request = call.request if call is not None else None
            if request is None:
                request = self._host.open(request_context=self._said_of(method), states=self._states)
            if call is None:
                async with self._ended_with(request, method):
                    yield request
                return
            call.request = request
            yield request
        except Exception as error:
            raise self._refused_for(method, error) from error

    @asynccontextmanager
    async def _ended_with(self, request: HostRequest, method: str) -> AsyncGenerator[None]:
        try:
            try:
                yield
            except BaseException as error:
                await request.close(None if isinstance(error, BlockedError) else error)
                raise
            await request.close()
        except Exception as error:
            raise self._refused_for(method, error) from error

    def _said_of(self, method: str) -> dict[str, Value]:
        return {**self._context, "mcp_method": method}

    def _check(self, method: str = "") -> None:
        """Refuse all of a session that has ended, and text in the place of a method, which no guard would read.

        Raises:
            RefusedError: it does not pass.
        """
        if self.ended or (method and _METHOD.fullmatch(method) is None):
            raise RefusedError

    def _refused_for(self, method: str, error: Exception) -> RefusedError:
        if isinstance(error, RefusedError):
            return error
        if isinstance(error, BlockedError):
            return self._refused(method, error.tripwire, f"by {error.tripwire.processor_id}")
        return self._refused(method, None, f"since its check failed: {type(error).__name__}", error)

    def _refused(
        self, method: str, tripwire: Tripwire | None, why: str, error: Exception | None = None
    ) -> RefusedError:
        log.warning("mcp: %s was blocked, %s", method, why)
        if error is not None:
            log.debug("mcp: the check failed", exc_info=error)  # it may quote what was checked
        self.ended = self.ended or self._ends
        if tripwire is not None and self._on_tripwire is not None:
            try:
                self._on_tripwire(tripwire, method)
            except Exception:  # noqa: BLE001 - it is told, and decides nothing
                log.exception("mcp: on_tripwire failed")
        return RefusedError()

    def _without_text(self, method: str, params: Json) -> Json:
        """Return a blocked notification without its text.

        Raises:
            RefusedError: the rest is worth nothing, or the session has ended.
        """
        if method not in _WITHOUT_TEXT:
            raise RefusedError
        self._check()
        return {key: params[key] for key in _WITHOUT_TEXT[method] if is_opaque(key, params.get(key))}


def blocked_result(*, modern: bool = False) -> Json:
    """Return the result of a tool whose call was blocked. A model reads it, and can go on."""
    return _answer(BLOCKED_TEXT, is_error=True, modern=modern)


def _answer(said: Value, *, is_error: bool, modern: bool) -> Json:
    value: Value = thaw(said)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    made: Json = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if is_mapping(value):
        made["structuredContent"] = value
    return {**made, "resultType": "complete"} if modern else made


def only_text(content: object) -> str | None:
    """Return the text of content that is one block of text and nothing else."""
    if not is_items(content) or len(content) != 1:
        return None
    block = content[0]
    if not is_mapping(block) or set(block) != {"type", "text"} or block["type"] != "text":
        return None
    return block["text"] if isinstance(block["text"], str) else None


def copies_of(result: Json) -> Callable[[Value, Json], list[Json]] | None:
    """Return how to write the content of a result anew if it says what ``structuredContent`` says; else None."""
    content, structured = result.get("content"), result.get("structuredContent")
    blocks = content if is_items(content) else ()
    found = [block.get("text") for block in blocks if is_mapping(block) and block.get("type") == "text"]
    texts = [text for text in found if isinstance(text, str)]
    if structured is None or not texts:
        return None
    if len(texts) == 1 and _says(texts[0], structured):
        return lambda value, made: _rewritten(made, [value])
    if not is_mapping(structured) or set(structured) != {"result"}:
        return None
    inner = structured["result"]
    if len(texts) == 1 and _says(texts[0], inner):
        return lambda value, made: _rewritten(made, [_inner(value)])
    if is_items(inner) and len(inner) == len(texts) and all(map(_says, texts, inner)):
        return lambda value, made: _rewritten(made, _inner(value))
    return None


def _says(text: str, value: Value) -> bool:
    return text == value or equal(_loaded(text), value)


_NOTHING = object()


def _loaded(text: str) -> Value:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING


def _inner(value: Value) -> Value:
    return value.get("result") if is_mapping(value) else value


def _rewritten(result: Json, values: Value) -> list[Json]:
    """Return content with its texts written anew, each in the form that it had."""
    left = list(values) if is_items(values) else [values]
    made: list[Json] = []
    for block in result["content"]:
        if not is_mapping(block) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            made.append(block)
        elif left:
            made.append({**block, "text": _written(left.pop(0), block["text"])})
    return made


def _written(value: Value, form: str) -> str:
    if isinstance(value, str) and not isinstance(_loaded(form), str):
        return value
    indent = 2 if "\n" in form else None
    tight = (",", ":") if indent is None and ": " not in form and ", " not in form else None
    return json.dumps(value, indent=indent, separators=tight, ensure_ascii=False)
