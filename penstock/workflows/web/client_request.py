"""`ClientRequest`: the request of a client in any format; and how the formats read JSON from a client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypedDict, get_args

from penstock.engine.values.errors import MessageError, OptionError
from penstock.engine.values.frozen import EMPTY, freeze, is_items, is_mapping, json_value
from penstock.engine.values.message_list import as_messages
from penstock.engine.values.model import ResponseFormat, ToolChoice, ToolSpec
from penstock.formats import parse_messages
from penstock.tools.tool import as_tools
from penstock.workflows.agent.request import is_blank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.formats import Format
    from penstock.workflows.web.sent import Json


class RequestError(MessageError):
    """The request of a client is malformed: its fault, so answer with HTTP 400. The message quotes nothing of it."""


class RequestedOptions(TypedDict, total=False):
    """Options of `Agent.stream` and `Agent.generate` that a client may set."""

    settings: Values
    tools: tuple[ToolSpec, ...]
    tool_choice: str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """The request of a client. All of it is the client's word: your code decides which fields count.

    Attributes:
        messages: the conversation. Every message has ``from_client`` set, also system and developer messages, so guards
            check them all.
        model: the name of the model that the client wants; empty if it names none.
        stream: whether the client wants the answer as a stream.
        include_usage: whether a stream reports the tokens.
        tools: the tools that the client runs itself. Their descriptions go to the model, and no guard reads them.
        tool_choice: ``auto``, ``none``, ``required``, or names of tools; None if the client does not say.
        settings: temperature, max_tokens and other settings of a model call, under Penstock's names.
        response_format: the format that the answer should have; None for text.
        id: the id of the conversation or chat, if the format has one; else empty.
        previous_id: the id of the answer that this request continues; else empty. Penstock stores no answers: without
            the earlier messages, refuse such a request.
        user: the client's name for its user; else empty.
        repeated: the fields that the answer repeats, as they came; only in the Responses API, and in AG-UI (``runId``).
        rest: all other fields, as they came.
    """

    messages: tuple[Message, ...]
    model: str = ""
    stream: bool = False
    include_usage: bool = False
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | tuple[str, ...] | None = None
    settings: Values = EMPTY
    response_format: ResponseFormat | None = None
    id: str = ""
    previous_id: str = ""
    user: str = ""
    repeated: Values = EMPTY
    rest: Values = EMPTY

    def __post_init__(self) -> None:
        """Freeze the mappings."""
        for name in ("settings", "repeated", "rest"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    @property
    def tool_names(self) -> frozenset[str]:
        """The names of the tools that the client runs."""
        return frozenset(tool.name for tool in self.tools)

    def options(self, *settings: str) -> RequestedOptions:
        """Return the client's settings as options of an agent's request; only those that it has set.

        Tools of the client take the place of the agent's own tools in that request.

        Args:
            settings: the names of the settings that the client may choose. None given: all that the format reads.
        """
        chosen = {name: value for name, value in self.settings.items() if not settings or name in settings}
        made: RequestedOptions = {"settings": freeze(chosen)} if chosen else {}
        if self.tools:
            made["tools"] = self.tools
            if self.tool_choice is not None:
                made["tool_choice"] = self.tool_choice
        return made


def _refused(word: str) -> NoReturn:
    raise ValueError(word)


def read_object(body: bytes | str | Mapping[str, object]) -> Json:
    """Return the JSON object that a client sent.

    Raises:
        RequestError: it is no JSON object, is nested too deeply, or holds something that JSON in UTF-8 cannot write:
            half a surrogate pair, which no answer could repeat, or a number that is not finite.
    """
    if isinstance(body, (bytes, str)):
        try:
            text = body if isinstance(body, str) else body.decode()
            body = json.loads(text, parse_constant=_refused)
        except (ValueError, RecursionError) as error:
            place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            raise RequestError("", f"the body is no JSON in UTF-8{place}; send a JSON object") from None
    if not isinstance(body, Mapping):
        raise RequestError("", f"the body is {_kind(body)}; send a JSON object")
    try:
        read: Json = dict(json_value(body, "body"))
        json.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    except MessageError as error:
        raise RequestError(error.place, error.problem) from None
    except UnicodeEncodeError:
        raise RequestError("", "a text holds half a surrogate pair, which is no character; send whole ones") from None
    except ValueError:
        raise RequestError("", "a number is too large, or not finite; send one that fits into 64 bits") from None
    return read


def read_messages(value: Value, format: Format, place: str) -> tuple[Message, ...]:  # noqa: A002
    """Return the messages of a client.

    Raises:
        RequestError: one is malformed, or there is none that holds anything.
    """
    if value is None:
        raise RequestError(place, "is missing; send the conversation")
    if not is_items(value):
        raise RequestError(place, f"is {_kind(value)}; send a list of messages")
    try:
        messages = parse_messages(value, format)
    except MessageError as error:
        raise RequestError(error.place.replace("messages", place, 1), error.problem) from None
    try:
        as_messages(messages)
    except MessageError:
        raise RequestError(place, "has two messages with one id; give each an id of its own") from None
    if all(map(is_blank, messages)):
        raise RequestError(place, "is empty; send at least one message with text, or with something else")
    return messages


class Fields:
    """The fields of a JSON object from a client, each read once; the others are the rest.

    Args:
        fields: the object.
        place: where it stands in the request; empty for the request itself.
    """

    def __init__(self, fields: Json, place: str = "") -> None:
        self._fields = fields
        self._place = place
        self._read: set[str] = set()

    def place(self, name: str) -> str:
        """Return the place of a field."""
        return f"{self._place}.{name}" if self._place else name

    def take(self, name: str) -> Value:
        """Return a field; None if it is missing or null."""
        self._read.add(name)
        return self._fields.get(name)

    def text(self, name: str) -> str:
        """Return a text; empty if it is missing.

        Raises:
            RequestError: it is something else.
        """
        value = self._checked(name, lambda value: isinstance(value, str), "a string")
        return "" if value is None else value

    def flag(self, name: str) -> bool:
        """Return a Boolean; False if it is missing.

        Raises:
            RequestError: it is something else.
        """
        return self._checked(name, lambda value: isinstance(value, bool), "true or false") is True

    def object(self, name: str) -> Json | None:
        """Return an object; None if it is missing.

        Raises:
            RequestError: it is something else.
        """
        found: Json | None = self._checked(name, is_mapping, "an object")
        return found

    def objects(self, name: str) -> list[Json]:
        """Return a list of objects; an empty one if it is missing.

        Raises:
            RequestError: it is something else.
        """
        expected = "a list of objects"
        value = self._checked(name, lambda value: is_items(value) and all(map(is_mapping, value)), expected)
        return list(value or ())

    def settings(self, names: Mapping[str, str]) -> Json:
        """Return the settings that the client has set.

        Args:
            names: for each name in the format, Penstock's name.

        Raises:
            RequestError: one is of another type than the setting has.
        """
        made: Json = {}
        for name, own in names.items():
            value = self._checked(name, *_SETTINGS.get(own, _NUMBER))
            if value is not None:
                made.setdefault(own, value)
        return made

    def rest(self) -> Json:
        """Return the fields that nobody has read."""
        return {name: value for name, value in self._fields.items() if name not in self._read}

    def _checked(self, name: str, fits: Callable[[Value], bool], expected: str) -> Value:
        value = self.take(name)
        if value is not None and not fits(value):
            raise RequestError(self.place(name), f"is {_kind(value)}; send {expected}")
        return value


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_int(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_stop(value: Value) -> bool:
    return isinstance(value, str) or (is_items(value) and all(isinstance(item, str) for item in value))


_NUMBER: tuple[Callable[[Value], bool], str] = (_is_number, "a number")
_SETTINGS: Mapping[str, tuple[Callable[[Value], bool], str]] = {
    "max_tokens": (_is_int, "a whole number"),
    "seed": (_is_int, "a whole number"),
    "stop": (_is_stop, "a string or a list of strings"),
    "parallel_tool_calls": (lambda value: isinstance(value, bool), "true or false"),
    "reasoning_effort": (lambda value: isinstance(value, str), "a string"),
}
"""For each setting that is not a number, by Penstock's name: a check of its value, and the values in words."""


def _kind(value: Value) -> str:
    """Return the kind of a JSON value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a Boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return "a string" if isinstance(value, str) else "an object" if is_mapping(value) else "a list"


def read_tools(request: Fields, *, nested: bool) -> tuple[ToolSpec, ...]:
    """Return the tools of a request. ``nested``: each stands in an object ``function`` of its own.

    Raises:
        RequestError: a tool is no function, has no name or the name of another, or has a malformed field.
    """
    made: dict[str, ToolSpec] = {}
    for index, item in enumerate(request.objects("tools")):
        fields = Fields(item, f"tools[{index}]")
        if item.get("type") != "function":
            raise RequestError(fields.place("type"), "expected function; other kinds of tools are not offered")
        tool = _read_tool(Fields(fields.object("function") or {}, fields.place("function")) if nested else fields)
        if tool.name in made:
            raise RequestError(fields.place("name"), "is that of another tool; give each a name of its own")
        made[tool.name] = tool
    return tuple(made.values())


def _read_tool(fields: Fields) -> ToolSpec:
    name = fields.text("name")
    if not name:
        raise RequestError(fields.place("name"), "is missing; name the tool")
    schema = fields.object("parameters") or {"type": "object", "properties": {}}
    strict = fields.flag("strict") if fields.take("strict") is not None else None
    made = ToolSpec(name, freeze(schema), fields.text("description"), strict)
    try:
        as_tools([made])
    except OptionError as error:
        place = fields.place("parameters" if error.option == "parameters" else "name")
        raise RequestError(place, f"is not allowed: it must be {error.allowed}") from None
    return made


def read_tool_choice(value: Value, tools: Iterable[ToolSpec]) -> str | tuple[str, ...] | None:
    """Return the choice of a tool: a word, or an object with the name of a function.

    Raises:
        RequestError: it is something else, or names a tool that the request does not declare.
    """
    if value is None:
        return None
    if isinstance(value, str) and value in get_args(ToolChoice):
        return value
    choice: Json = value if is_mapping(value) else {}
    inner = choice.get("function")
    name = inner.get("name") if is_mapping(inner) else choice.get("name")
    if choice.get("type") != "function" or not isinstance(name, str):
        raise RequestError("tool_choice", "expected auto, none, required, or an object that names a function")
    if name not in {tool.name for tool in tools}:
        raise RequestError("tool_choice", "names a tool that is not in tools; declare it there")
    return (name,)


def read_response_format(form: Json | None, place: str, *, nested: bool) -> ResponseFormat | None:
    """Return the format that an answer should have; None for text.

    Args:
        form: the client's object, or None.
        place: where it stands.
        nested: whether the schema stands in an object ``json_schema`` of its own.

    Raises:
        RequestError: it is malformed.
    """
    if form is None:
        return None
    fields = Fields(form, place)
    kind = fields.text("type")
    if kind not in ("text", "json_object", "json_schema"):
        raise RequestError(fields.place("type"), "expected text, json_object or json_schema")
    if kind != "json_schema":
        return None if kind == "text" else ResponseFormat()
    if nested:
        fields = Fields(fields.object("json_schema") or {}, fields.place("json_schema"))
    schema = fields.object("schema")
    if schema is None:
        raise RequestError(fields.place("schema"), "is missing; send a JSON Schema")
    return ResponseFormat(
        freeze(schema), fields.text("name") or "answer", fields.text("description"), fields.flag("strict")
    )
