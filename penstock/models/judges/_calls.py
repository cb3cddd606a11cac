"""Asking a model until it gives a verdict: with a limit, a time, so many attempts. It knows no cache, no context."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import anyio

from penstock.engine.values.errors import ModelError, PenstockError
from penstock.engine.values.model import JudgeError, ModelRequest, ResponseFormat
from penstock.models.judges._json import UnreadableError
from penstock.models.judges._prompts import delimiter, prompt
from penstock.models.judges.answers import rejects_format, whole
from penstock.models.judges.quoting import quotes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.model import ModelAnswer, Usage
    from penstock.engine.values.ports import Ids, Model
    from penstock.models.judges._forms import Form, Reading

V = TypeVar("V")

Structured: TypeAlias = Literal["schema", "json", "prompt"]
Backoff: TypeAlias = Callable[[int], float]

LONGEST_ANSWER = 1_000_000
"""How many characters of an answer are read: a verdict is short, and a model may never end."""

LONGEST_WAIT = 60.0
"""For how many seconds at most a judge waits if the provider asks to; beyond that it fails at once."""


def wait_before(attempt: int) -> float:
    """Return the seconds to wait before an attempt, from 2 on: half a second, doubled each time up to 8, ± a half."""
    return min(8.0, 0.5 * 2.0 ** (attempt - 2)) * random.uniform(0.5, 1.5)  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True)
class Manner:
    """How a judge asks; the options of `Judge` that are about it."""

    instructions: str
    settings: Values
    provider_options: Values
    timeout: float
    retries: int
    backoff: Backoff
    ids: Ids


@dataclass(frozen=True, slots=True)
class Found:
    """What asking gave: data of the type, and what it took."""

    reading: Reading
    attempts: int
    usage: Usage | None


class _FailedError(Exception):
    """An attempt that gave no verdict."""

    def __init__(self, reason: str, problem: str, *, wait: float | None = None, hopeless: bool = False) -> None:
        super().__init__(problem)
        self.reason = reason
        self.problem = problem
        self.wait = wait
        self.hopeless = hopeless


class Caller:
    """Asks one model. Lives as long as its judge; remembers whether the provider takes a schema."""

    __slots__ = ("manner", "model", "structured")

    def __init__(self, model: Model, manner: Manner, structured: Structured) -> None:
        self.model = model
        self.manner = manner
        self.structured: Structured = structured

    async def ask(self, form: Form[V], contents: Sequence[str], limiter: anyio.CapacityLimiter) -> Found:
        """Return what the model says about the contents.

        Raises:
            JudgeError: it gave no verdict in all of its attempts, or is not to be asked again.
        """
        return await _Question(self, form, contents).answered(limiter)


class _Question(Generic[V]):
    """One question on its way through its attempts."""

    def __init__(self, caller: Caller, form: Form[V], contents: Sequence[str]) -> None:
        self._caller = caller
        self._model = caller.model
        self._manner = caller.manner
        self._form = form
        self._contents = contents
        self._problem = ""
        self._attempts = 0
        self._usage: Usage | None = None

    async def answered(self, limiter: anyio.CapacityLimiter) -> Found:
        retries = self._manner.retries
        while True:
            self._attempts += 1
            structured = self._caller.structured
            try:
                async with _slot(limiter):
                    return Found(await self._attempt(), self._attempts, self._usage)
            except _FailedError as failed:
                if self._caller.structured != structured:
                    continue  # what was refused is the form of the request: that is no attempt at a verdict
                if failed.hopeless or retries == 0:
                    raise self._given_up(failed) from self._shown(failed)
                retries -= 1
                await anyio.sleep(self._manner.backoff(self._attempts + 1) if failed.wait is None else failed.wait)

    def _given_up(self, failed: _FailedError) -> JudgeError:
        return JudgeError(self._model.name, failed.reason, failed.problem, attempts=self._attempts, usage=self._usage)

    def _shown(self, failed: _FailedError) -> BaseException | None:
        """Return what the model raised; None if it quotes the content, as some servers do: then nothing leads to it."""
        links = [*_links(failed.__cause__)]
        said = "\n".join(f"{link} {getattr(link, 'body', '')}" for link in links)
        if not any(quotes(said, content) for content in self._contents):
            return failed.__cause__
        failed.__cause__ = failed.__context__ = None
        return None

    async def _attempt(self) -> Reading:
        with anyio.move_on_after(self._manner.timeout):
            try:
                return self._read(await whole(self._model.stream(self._request()), LONGEST_ANSWER, _too_long))
            except ModelError as error:
                raise self._unanswered(error) from error
            except (_FailedError, PenstockError):
                raise
            except Exception as error:
                raise _FailedError("model", f"the model broke ({type(error).__name__})", hopeless=True) from error
        raise _FailedError("timeout", f"there was no answer within {self._manner.timeout:g} seconds")

    def _request(self) -> ModelRequest:
        manner = self._manner
        fence = delimiter([*self._contents, manner.instructions], manner.ids)
        messages = prompt(manner.instructions, self._form.schema, self._contents, fence, self._problem)
        return ModelRequest(
            messages,
            settings=manner.settings,
            response_format=self._format(),
            provider_options=manner.provider_options,
        )

    def _format(self) -> ResponseFormat | None:
        if self._caller.structured == "prompt":
            return None
        schema = self._form.schema if self._caller.structured == "schema" else None
        return ResponseFormat(schema, "verdict", strict=self._form.strict)

    def _read(self, answer: ModelAnswer) -> Reading:
        if answer.usage is not None:
            self._usage = answer.usage if self._usage is None else self._usage + answer.usage
        _refuse_unfinished(answer)
        try:
            return self._form.read(answer.text, len(self._contents))
        except UnreadableError as error:
            cut = answer.finish_reason == "length"
            self._problem = "it was cut off, because it was too long" if cut else str(error)
            raise _FailedError("unreadable", f"the answer is no verdict: {self._problem}", wait=0.0) from error

    def _unanswered(self, error: ModelError) -> _FailedError:
        if self._caller.structured != "prompt" and rejects_format(error):
            self._caller.structured = "prompt"
        wait = error.retry_after
        hopeless = not error.retryable or (wait is not None and wait > LONGEST_WAIT)
        told = f" (HTTP {error.status})" if error.status else ""
        return _FailedError("model", f"the model could not be asked{told}", wait=wait, hopeless=hopeless)


def _refuse_unfinished(answer: ModelAnswer) -> None:
    """Refuse an answer that is none, whatever its text says.

    Raises:
        _FailedError: it is a refusal, broken, or empty.
    """
    if answer.refused or answer.finish_reason == "content-filter":
        raise _FailedError("refused", "the model, or its provider, refused to judge", hopeless=True)
    if answer.finish_reason == "error":
        raise _FailedError("model", "the answer ended in an error")
    if not answer.text.strip():
        raise _FailedError("empty", "the answer is empty")


def _links(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


class _slot:  # noqa: N801 - used like a function
    """A place among the calls that may be under way at once; first come, first served."""

    __slots__ = ("_limiter",)

    def __init__(self, limiter: anyio.CapacityLimiter) -> None:
        self._limiter = limiter

    async def __aenter__(self) -> None:
        await self._limiter.acquire_on_behalf_of(self)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release_on_behalf_of(self)


def _too_long() -> _FailedError:
    return _FailedError("unreadable", f"the answer has more than {LONGEST_ANSWER:,} characters")
