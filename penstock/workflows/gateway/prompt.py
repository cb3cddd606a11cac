"""`Prompt`: a request of a client on its way through the input stages, and the request for the provider.

A request that no guard changes goes to the provider as the bytes that came. All texts beside the conversation (tools,
schemas, names) are read together, as data of one system message, which no limit drops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_not
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.frozen import EMPTY, freeze, thaw
from penstock.engine.values.messages import DataPart, Message
from penstock.engine.values.model import ModelRequest, ToolSpec
from penstock.engine.values.protocols import SYSTEM_CLOCK
from penstock.engine.values.terms import is_word
from penstock.tools.tool import as_tools
from penstock.workflows.gateway.json_text import write_json
from penstock.workflows.gateway.tables import VALUE, Place, at, places, with_values
from penstock.workflows.gateway.tool_results import judge_results

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.tripwire import Tripwire
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.endpoints.endpoint import Endpoint
    from penstock.workflows.gateway.reviewing import RequestReviews
    from penstock.workflows.gateway.sections import RequestSection
    from penstock.workflows.gateway.tables import Path

BESIDE = "gateway-request"
"""The name of the data part with the texts beside the conversation, and the id of its message."""


class FieldError(Exception):
    """A field of a request that the gateway refuses. The client's fault: answer with HTTP 400. No value is quoted.

    Attributes:
        place: the field.
        problem: the fault, and the cure.
        code: the code of the error.
    """

    def __init__(self, place: str, problem: str, code: str = "unguarded_field") -> None:
        self.place = place
        self.problem = problem
        self.code = code
        super().__init__(f"{place}: {problem}")


@dataclass(frozen=True, slots=True)
class ProviderModel:
    """The model behind the gateway, for processors that ask for its name. The gateway calls it, not the engine.

    Attributes:
        name: its name.
    """

    name: str

    def stream(self, request: ModelRequest) -> Iterable[Chunk]:
        """Raise an error: processors cannot call it.

        Raises:
            UsageError: always.
        """
        del request
        raise UsageError("the gateway calls the model; a processor cannot")


@dataclass(slots=True)
class _Read:
    """A section as it was read."""

    section: RequestSection
    value: Value
    items: list[tuple[Message, ...]]
    left: list[int | list[Message]] = field(default_factory=list[int | list[Message]])


class Prompt:
    """One request. Lives as long as it.

    Args:
        endpoint: its protocol.
        body: the request.
        raw: its bytes.
        strict: whether fields that the table does not know are refused; if not, guards read them as values.
        permits: the words with which an operator lets refused fields pass; guards read them as values.

    Attributes:
        body: the request as it came, without parts that every provider refuses.
        model: the name of the model.
        unknown: the fields that the table does not know.
        messages: all messages of the request, in the order in which a model reads them.

    Raises:
        FieldError: a field is refused, unknown or malformed.
    """

    def __init__(
        self, endpoint: Endpoint, body: Json, raw: bytes, *, strict: bool, permits: Collection[str] = ()
    ) -> None:
        given, body = body, endpoint.cleaned(body)
        self.body = body
        self.model = body["model"] if isinstance(body.get("model"), str) else ""
        self._endpoint = endpoint
        self._permits = permits
        self._base, self._raw = forced(
            body,
            raw if body is given else write_json(body),
            endpoint.forced if not permits else self._still_forced(),
        )
        self._sent: Json = self._base
        found = places(endpoint.request, body, asked=True)
        self.unknown = tuple([shown(place.path) for place in found.unknown])
        if strict and self.unknown:
            raise FieldError(
                self.unknown[0],
                f"is not in the gateway's table of {endpoint.name}, so no guard would know how to read it; leave it "
                "out, or let the operator set unknown: read",
            )
        read = [self._permitted(place) for place in (*found.known, *found.unknown)]
        self._beside = {dotted(place.path): place for place in read if place.field.kind == "value"}
        try:
            self._sections = self._read()
            self._tools = dict(endpoint.tools(body))
            self.messages = [message for read in self._sections for item in read.items for message in item]
        except MessageError as error:
            raise FieldError(error.place, error.problem) from None
        self._tool_choice: Value = None

    def _permitted(self, place: Place) -> Place:
        """Return a place; one that is refused, but that the operator lets pass, as a value."""
        field = place.field
        if field.kind != "refused":
            return place
        if field.permit in self._permits:
            return Place(VALUE, place.path, place.value)
        more = f"; or let the operator set permit: [{field.permit}]" if field.permit else ""
        raise FieldError(shown(place.path), f"{field.note or 'is refused by the gateway'}{more}", field.code)

    def _still_forced(self) -> Json:
        """Return the fields that are forced, without those that the operator leaves to clients."""
        table = self._endpoint.request.fields
        return {
            key: value
            for key, value in self._endpoint.forced.items()
            if getattr(table.get(key), "permit", "") not in self._permits
        }

    def _read(self) -> list[_Read]:
        made: list[_Read] = []
        now = SYSTEM_CLOCK.now()  # with an id and a time, a message goes through the stages as the same object
        for section in self._endpoint.sections(self.body):
            value = at(self.body, section.path) if section.path[0] in self.body else None
            if value is None and not section.may_begin:
                continue
            items = section.read(value)
            begin = f"in-{len(made)}-"
            named = [
                tuple([_from_client(message, f"{begin}{item}-{place}", now) for place, message in enumerate(one)])
                for item, one in enumerate(items)
            ]
            made.append(_Read(section, value, named))
        return made

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The functions that the client offers."""
        return tuple(self._tools.values())

    # The stages

    async def judge(self, run: Run, reviews: RequestReviews | None = None) -> Tripwire | None:
        """Run the input stages; return the verdict if one stopped the request.

        Args:
            run: the run of its guards.
            reviews: answers what they ask about the request; None: a question blocks it.

        Raises:
            FieldError: the name of a field holds text that a guard hides.
            UsageError: a processor made a change that a gateway cannot make.
            NotDecidedError: a question about the request has no answer yet.
            StorageError: the store of the reviews failed.
        """
        outcome = await run.process_input([*self._data_message(), *self.messages])
        if reviews is not None:
            outcome = await reviews.input(run, outcome)
        if outcome.blocked:
            return outcome.tripwire
        await judge_results(run, reviews)
        if run.tripwire is not None:
            return run.tripwire
        left = tuple([entry.message for entry in run.message_list.entries])
        if reviews is not None:
            reviews.judged(run, left)
        data = self._data_of(left)
        overrides: Mapping[str, Value] = EMPTY
        if run.serves("process_input_step"):
            tools = as_tools(self._tools.values())
            step = await run.process_input_step(
                model=ProviderModel(self.model),
                tools=tools,
                tool_choice="auto",
                active_tools=None,
                model_settings=self._settings(),
            )
            if step.blocked:
                return step.tripwire
            left = tuple([entry.message for entry in step.message_list.entries])
            overrides = step.overrides
        if run.serves("process_llm_request"):
            settings = self._settings()
            asked = await run.process_llm_request(
                request=ModelRequest(tuple(left), self.tools, settings=settings),
                model=ProviderModel(self.model),
                model_settings=settings,
            )
            if asked.blocked:
                return asked.tripwire
            refuse_answer(asked)
            left = asked.messages
        kept = [message for message in left if message.id != BESIDE] if self._beside else left
        self._sent = self._changed(kept, data, overrides)
        return None

    def _settings(self) -> Values:
        settings: Values = freeze(self._endpoint.settings(self.body))
        return settings

    def _data_message(self) -> list[Message]:
        if not self._beside:
            return []
        data = {name: place.value for name, place in self._beside.items()}
        return [Message("system", (DataPart(BESIDE, freeze(data)),), id=BESIDE, from_client=True)]

    def _data_of(self, messages: Iterable[Message]) -> Mapping[str, Value]:
        """Return the values beside the conversation as the guards left them.

        Raises:
            UsageError: a processor removed them, so that nobody knows the values to send.
        """
        if not self._beside:
            return EMPTY
        found = next((message for message in messages if message.id == BESIDE), None)
        part = next((part for part in found.parts if isinstance(part, DataPart)), None) if found is not None else None
        if part is None:
            raise UsageError(
                "a processor removed the system message with the texts beside the conversation (tools, schemas, "
                "names); let it keep system messages"
            )
        data: Mapping[str, Value] = thaw(part.data)
        return data

    # The request for the provider

    @property
    def sent(self) -> Json:
        """The request for the provider."""
        return self._sent

    @property
    def is_changed(self) -> bool:
        """Whether the guards changed the request."""
        return self._sent is not self._base

    def written(self) -> bytes:
        """Return the request for the provider: the bytes that came, unless guards changed it."""
        return write_json(self._sent) if self.is_changed else self._raw

    def _changed(self, messages: Sequence[Message], data: Mapping[str, Value], overrides: Mapping[str, Value]) -> Json:
        changes: dict[Path, Value] = {}
        given = self.messages
        if len(given) != len(messages) or any(map(is_not, given, messages)):
            self._sort(messages)
            for read in self._sections:
                items = [tuple(item) if isinstance(item, list) else item for item in read.left]
                if items != list(range(len(read.items))):
                    changes[read.section.path] = read.section.write(read.value, items)
        elif not self._beside and not overrides:
            return self._base
        is_same = not changes
        for name, place in self._beside.items():
            if name not in data:
                if len(data) == len(self._beside):
                    raise FieldError(shown(place.path), "its name holds text that a guard hides; give it another name")
                raise UsageError(f"a processor removed {name} beside the conversation, which a gateway cannot do")
            if data[name] != place.value:
                changes[place.path] = data[name]
        made: Json = with_values(self._base, changes)
        made = made if is_same else self._endpoint.fitted(made)
        return self._with_overrides(made, overrides)

    def _with_overrides(self, made: Json, overrides: Mapping[str, Value]) -> Json:
        """Return the request with what `process_input_step` has chosen: fewer tools, another model."""
        tools: Value = overrides.get("tools")
        active: Value = overrides.get("active_tools")
        if tools is not None or active is not None:
            kept = {*(tools if tools is not None else self._names())}
            kept &= {*(active if active is not None else kept)}
            added = sorted(kept - self._names())
            if added:
                raise UsageError(
                    f"processors added the tools {', '.join(added)}, which the client behind a gateway lacks"
                )
            gone = {index for index, tool in self._tools.items() if tool.name not in kept}
            if gone:
                left = [tool for index, tool in enumerate(made["tools"]) if index not in gone]
                made = {key: value for key, value in made.items() if key != "tools" or left}
                made = {**made, "tools": left} if left else {k: v for k, v in made.items() if k != "tool_choice"}
        model: Value = overrides.get("model")
        name = model if isinstance(model, str) else getattr(model, "name", self.model)
        return made if name == self.model else {**made, "model": name}

    def _names(self) -> set[str]:
        return {tool.name for tool in self._tools.values()}

    def _taking(self, message: Message) -> _Read | None:
        """Return the last section that takes a message which guards added."""
        return next((read for read in reversed(self._sections) if read.section.takes(message)), None)

    def _sort(self, messages: Sequence[Message]) -> None:
        """Put messages into the items of their sections; those that guards added go where their neighbours are."""
        home = {
            message.id: (read, at_item)
            for read in self._sections
            for at_item, item in enumerate(read.items)
            for message in item
        }
        now: dict[int, dict[int, list[Message]]] = {id(read): {} for read in self._sections}
        new: dict[int, dict[int, list[Message]]] = {id(read): {} for read in self._sections}
        last: dict[int, int] = {}
        for message in messages:
            if message.id in home:
                read, item = home[message.id]
                now[id(read)].setdefault(item, []).append(message)
                last[id(read)] = item
            elif (taking := self._taking(message)) is not None:
                behind = _instructions(taking) if message.role == "system" else last.get(id(taking), -1)
                new[id(taking)].setdefault(behind, []).append(message)
            elif message.role != "system":  # a note for a model that reads a conversation: here is none to read it
                raise UsageError("a processor added a message, and this request has no place for one")
        for read in self._sections:
            kept, added = now[id(read)], new[id(read)]
            read.left = [list(added[-1])] if -1 in added else []
            for item, given in enumerate(read.items):
                left = kept.get(item, [])
                if not given or [_said(one) for one in left] == [_said(one) for one in given]:
                    read.left.append(item)
                elif left:
                    read.left.append(left)
                if item in added:
                    read.left.append(added[item])


def _from_client(message: Message, id: str, now: datetime) -> Message:
    """Return a message as one of the client's, with an id and a time; nothing is checked again, as `replace` would."""
    return message.as_from_client().with_origin(id, message.created_at or now)


def _instructions(read: _Read) -> int:
    """Return the index of the last of the system messages that a section begins with; -1 if there is none.

    A system message that a guard adds stands behind them: so the beginning of a prompt is the same in each turn.
    """
    others = (at for at, item in enumerate(read.items) if any(message.role != "system" for message in item))
    return next(others, len(read.items)) - 1


def _said(message: Message) -> Value:
    return message.id, message.role, message.parts, message.name


def forced(body: Json, raw: bytes, fields: Mapping[str, Value]) -> tuple[Json, bytes]:
    """Return a request, and its bytes, with fields that must be in it; given ones stay.

    A field that is missing is added at the end, so that all other bytes stay.
    """
    missing = {key: value for key, value in fields.items() if body.get(key) is None} if fields else None
    if not missing:
        return body, raw
    made = {**body, **missing}
    if any(key in body for key in missing) or not body:
        return made, write_json(made)
    return made, raw.rstrip().removesuffix(b"}").rstrip() + b"," + write_json(missing)[1:]


def refuse_answer(outcome: Outcome) -> None:
    """Refuse the answer of a processor in the model's place, which has no form in the client's protocol.

    Raises:
        UsageError: there is one.
    """
    if outcome.answer is not None:
        raise UsageError(
            "a processor answered in the model's place (a ResponseCache does so); behind a gateway, use its own cache: "
            "`cache:` of a route"
        )


def shown(path: Path) -> str:
    """Return a path for errors and logs: as `dotted`, but a key that is no word of a program is shown as ``…``."""
    return dotted(tuple(key if isinstance(key, int) or is_word(key) else "…" for key in path))


def dotted(path: Path) -> str:
    """Return a path as users write it: ``messages[3].content``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
