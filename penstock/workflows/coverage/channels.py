"""The channels of a request: each way in which content comes to the model or to the client, past the guards.

A channel is made of parts of messages, or is the value of a tool's stage. `CHANNELS` is the list. A test compares it
with the engine: every stage, every kind of part and every source of messages is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.engine.text_guards.reading import OF_MESSAGE
from penstock.engine.text_guards.scope import PART_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

Way = Literal["input", "output"]

FILES = ("image", "audio", "file")
"""The kinds of parts that have a body, which may be one that no guard can read."""

_EVERY = (*PART_KINDS, OF_MESSAGE)
_TO_MODEL = ("process_input", "process_input_step", "process_llm_request")
_ANSWER = ("process_output_stream", "process_llm_response", "process_output_step", "process_output_result")


@dataclass(frozen=True, slots=True)
class ContentChannel:
    """One channel.

    Attributes:
        name: its name, as in ``--require secrets:tool_call``.
        title: a few words about it.
        way: ``input``: it leads to the model; ``output``: it comes from the model.
        source: the source of its messages (of a `MessageList`), ``client-system``, or the field of a tool's value.
        kinds: the kinds of parts that it consists of; ``message`` stands for the message itself: names, ids, metadata.
        stages: the stages that show it to a guard in time, before it is used.
        usual: whether guards read it by default, since somebody else than the application wrote it.
        live: whether it leaves piece by piece, before the whole is known.
        fixed: whether its texts can only be read: bodies of files, and metadata. A guard that finds something stops.
    """

    name: str
    title: str
    way: Way
    source: str
    kinds: tuple[str, ...]
    stages: tuple[str, ...]
    usual: bool = True
    live: bool = False
    fixed: bool = False


CHANNELS: tuple[ContentChannel, ...] = (
    ContentChannel("user_text", "text of the client's messages", "input", "input", ("text",), _TO_MODEL),
    ContentChannel(
        "user_files", "files, pictures and sound of the client", "input", "input", FILES, _TO_MODEL, fixed=True
    ),
    ContentChannel(
        "user_tools", "tool calls and results that the client sends", "input", "input", ("tool",), _TO_MODEL
    ),
    ContentChannel(
        "user_other",
        "reasoning, sources and data that the client sends",
        "input",
        "input",
        ("reasoning", "source", "data", "step-start", "unknown"),
        _TO_MODEL,
    ),
    ContentChannel(
        "user_metadata",
        "names, ids and metadata of the client's messages",
        "input",
        "input",
        (OF_MESSAGE,),
        _TO_MODEL,
        fixed=True,
    ),
    ContentChannel("client_system", "system messages of the client", "input", "client-system", ("text",), _TO_MODEL),
    ContentChannel(
        "instructions", "instructions of the application", "input", "system", ("text",), _TO_MODEL, usual=False
    ),
    ContentChannel(
        "history", "older messages that the application gives", "input", "context", _EVERY, _TO_MODEL[1:], usual=False
    ),
    ContentChannel("memory", "messages that a memory recalls", "input", "memory", _EVERY, _TO_MODEL[1:], usual=False),
    ContentChannel(
        "tool_definitions",
        "names, descriptions and schemas of tools",
        "input",
        "tools",
        ("definition",),
        _TO_MODEL[1:],
        usual=False,
    ),
    ContentChannel("tool_result", "results of tools", "input", "result", ("tool",), ("process_tool_result",)),
    ContentChannel("tool_error", "errors of tools", "input", "result", ("tool",), ("process_tool_result",)),
    ContentChannel(
        "model_error",
        "errors of the model's provider",
        "input",
        "error",
        ("error",),
        ("process_api_error",),
        usual=False,
    ),
    ContentChannel(
        "answer_live", "text of the answer as it streams", "output", "response", ("text",), _ANSWER, live=True
    ),
    ContentChannel("answer", "text of the answer at its end", "output", "response", ("text",), _ANSWER),
    ContentChannel(
        "structured", "structured answer, as JSON and as data", "output", "response", ("text", "data"), _ANSWER
    ),
    ContentChannel(
        "reasoning_live", "reasoning as it streams", "output", "response", ("reasoning",), _ANSWER, live=True
    ),
    ContentChannel("reasoning", "reasoning at its end", "output", "response", ("reasoning",), _ANSWER),
    ContentChannel(
        "tool_call", "arguments of tool calls", "output", "response", ("tool",), (*_ANSWER[:3], "process_tool_call")
    ),
    ContentChannel(
        "tool_stream",
        "results and errors of tools, as the client's stream shows them",
        "output",
        "response",
        ("tool",),
        ("process_tool_result", "process_output_stream"),
    ),
    ContentChannel(
        "provider_tools", "results of tools that the provider runs", "output", "response", ("tool",), _ANSWER
    ),
    ContentChannel("sources", "sources that the answer cites", "output", "response", ("source",), _ANSWER),
    ContentChannel(
        "answer_files", "files, pictures and sound of the answer", "output", "response", FILES, _ANSWER, fixed=True
    ),
    ContentChannel(
        "answer_other",
        "data and unknown parts of the answer",
        "output",
        "response",
        ("data", "step-start", "unknown"),
        _ANSWER,
    ),
    ContentChannel("answer_metadata", "metadata of the answer", "output", "response", ("text",), _ANSWER, fixed=True),
)
"""All channels, in the order of a request."""

NAMES: Mapping[str, ContentChannel] = {channel.name: channel for channel in CHANNELS}
"""The channels by name."""

KINDS: Mapping[str, str] = {
    "personal": "personal data",
    "secrets": "keys, tokens and passwords",
    "injection": "injected instructions",
    "moderation": "harmful content",
    "leaks": "the system prompt",
    "links": "web addresses",
    "language": "the language of texts",
    "patterns": "matches of your own rules",
    "calls": "tool calls that a policy forbids",
}
"""The kinds of findings of the built-in guards: the values of `Processor.finds`."""

_WAYS: Mapping[str, Way] = {"injection": "input", "leaks": "output", "links": "input"}
_NARROW: Mapping[str, tuple[str, ...]] = {
    "language": ("user_text", "client_system"),  # it is that of a text, not that of a file or of JSON
    "calls": ("tool_call",),
}


def usual_channels(kind: str) -> tuple[ContentChannel, ...]:
    """Return the channels on which a kind of content is looked for where nothing else is said.

    These are all that somebody else than the application wrote: attacks come in, prompts leak out.
    """
    if kind in _NARROW:
        return tuple(NAMES[name] for name in _NARROW[kind])
    way = _WAYS.get(kind)
    return tuple(channel for channel in CHANNELS if channel.usual and way in (None, channel.way))
