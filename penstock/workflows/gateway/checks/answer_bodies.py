"""The JSON bodies of models' answers, checked whole: for products that show all of a body.

Choices, content and output of OpenAI's and Anthropic's APIs are read as answers, each alone. All other fields that hold
text are read as data. Fields that repeat an answer token by token go if the answer was changed. An untouched body is
given back as it came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.messages import Message
from penstock.engine.values.terms import TOKEN_KEYS
from penstock.formats.wire import expect_array, expect_object, is_array, is_object
from penstock.workflows.gateway.checks import beside
from penstock.workflows.gateway.checks.answers import check_answer
from penstock.workflows.gateway.checks.core import CheckResult
from penstock.workflows.gateway.checks.request_bodies import REMOVED, BodyChecked
from penstock.workflows.gateway.checks.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.workflow import Workflow
    from penstock.formats.wire import Json, Value


class _BlockedError(Exception):
    """Carries the result out of the check of a part, after which nothing more is checked."""

    def __init__(self, result: BodyChecked) -> None:
        self.result = result
        super().__init__("a part of the answer was blocked")


async def check_answer_body(
    guards: Workflow, body: Json, *, asked: Sequence[Message] = (), context: Json | None = None
) -> BodyChecked:
    """Check the body of a model's answer.

    Args:
        guards: the policy.
        body: the body.
        asked: the conversation that it answers.
        context: the request context of the runs.

    Raises:
        MessageError: it is malformed, or a piece of a stream.
    """
    try:
        made = await _AnswerBody(guards, asked, context).left(body)
    except _BlockedError as error:
        return error.result
    return BodyChecked(body if made == body else made)


class _AnswerBody:
    """The parts of one body, checked one after another. Its methods raise a `_BlockedError` if one was blocked."""

    def __init__(self, guards: Workflow, asked: Sequence[Message], context: Json | None) -> None:
        self._guards = guards
        self._asked = asked
        self._context = context

    async def left(self, body: Json) -> Json:
        """Return the body as the guards left it."""
        made: Json = {}
        for name, value in body.items():
            if name == "choices":
                made[name] = [
                    await self._choice(item, f"choices[{index}]")
                    for index, item in enumerate(expect_array(value, "choices", "a list of choices"))
                ]
            elif name == "output" and is_array(value) and all(map(is_object, value)):
                made[name] = await self._rows(value, name, "openai-responses")
            elif name == "content" and body.get("role") == "assistant":
                said = await self._rows([{"role": "assistant", "content": value}], name, "anthropic")
                made[name] = said[0].get("content") if said else []
        return await self._with_rest(body, made)

    async def _choice(self, given: Value, place: str) -> Json:
        choice = expect_object(given, place)
        if "delta" in choice:
            raise MessageError(f"{place}.delta", "pieces of a stream cannot be checked; send the whole answer")
        said: Json = {}
        if choice.get("message") is not None:
            left = await self._rows([choice["message"]], f"{place}.message", "openai-chat")
            said["message"] = left[0] if left else {**choice["message"], "content": ""}
        if isinstance(choice.get("text"), str):
            said["text"] = (await self._checked(Message.assistant(choice["text"]))).text
        return await self._with_rest(choice, said)

    async def _with_rest(self, given: Json, said: Json) -> Json:
        """Return an object with the fields that were checked, and with its others as the guards left them."""
        rest = beside.beside_of(given, said.keys(), tokens=not said)
        left: Json | None = {}
        if rest:
            left = beside.left_of((await self._checked(beside.as_message(rest))).messages[0], rest)
        if left is None or left.keys() != rest.keys():
            raise _BlockedError(BodyChecked(None, None, REMOVED))
        if left == rest and {name: given[name] for name in said} == said:
            return given
        return {
            name: None if name in TOKEN_KEYS else said.get(name, left.get(name, value)) for name, value in given.items()
        }

    async def _rows(self, items: Value, place: str, format: str) -> list[Json]:  # noqa: A002
        """Check messages, each as an answer."""
        rows = Rows(items, place, format)
        left: list[Message | None] = []
        for message in rows.messages:
            (now,) = (await self._checked(message)).messages
            left.append(None if now is None else replace(now, role=message.role, from_client=message.from_client))
        return rows.left(CheckResult(verdict="edited", messages=left))

    async def _checked(self, message: Message) -> CheckResult:
        checked = await check_answer(self._guards, message, asked=self._asked, context=self._context)
        if checked.blocked:
            raise _BlockedError(BodyChecked(None, checked))
        return checked
