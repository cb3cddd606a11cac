"""`Judge`: asks a model for a verdict of a type; `Judgement`: the verdict and its cost."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import anyio

from penstock.engine.values.errors import OptionError, UsageError
from penstock.engine.values.frozen import EMPTY, Value
from penstock.engine.values.judging import JudgedVerdict, JudgeQuestion
from penstock.engine.values.model import JudgeError, Usage
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.models.judges.access import ModelAccess
from penstock.models.judges.lenient_json import UnreadableError
from penstock.models.judges.verdict_forms import VerdictData, VerdictForm
from penstock.models.judges.verdict_requests import Inquiry, JudgeCosts, JudgeReply, wait_before
from penstock.models.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.protocols import Cache, Ids, Model
    from penstock.models.judges.verdict_requests import Backoff, Structured


V_co = TypeVar("V_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[V_co]):
    """A verdict of a model, and its cost.

    Attributes:
        verdict: the verdict; each caller gets an object of its own.
        model: the name of the model that gave it.
        dropped: the entries of lists and mappings that were invalid and were left out: their path (``*`` for a key of a
            mapping), and pydantic's name of the error.
        attempts: how many calls it took; 0 if it came from the cache, or from another task that asked the same.
        usage: the tokens of these calls; None if the provider did not report them, or there was no call.
    """

    verdict: V_co
    model: str
    dropped: tuple[str, ...] = ()
    attempts: int = 1
    usage: Usage | None = None

    @property
    def cached(self) -> bool:
        """Whether it cost nothing: it came from the cache, or from another task that asked the same."""
        return self.attempts == 0


def noted(ctx: AnyContext, model: str, costs: JudgeCosts, found: JudgeReply | None = None) -> None:
    """Add the cost of a judgement to the run's usage, and to the record of the hook that asked.

    In the record it is ``details["judge"][model]``. A verdict that came from the cache adds no usage. It counts as
    ``cached``, and the tokens that it took when it was asked for as ``saved``. One that was given before the run was
    suspended counts as ``known``, too.
    """
    for request in costs.requests:
        ctx.usage_log.enter(replace(request, by=ctx.step_path))
    effects = ctx.effects
    notes: Values = (effects.notes or {}) if effects is not None else {}
    models: Values = notes.get("judge", {})
    usage, saved = costs.usage or Usage(0, 0), (found and found.saved) or Usage(0, 0)
    made: dict[str, Value] = {
        "verdicts": 1,
        "cached": int(found is not None and found.cached),
        "calls": costs.attempts,
        "input_tokens": usage.input_tokens or 0,
        "output_tokens": usage.output_tokens or 0,
        "saved_input_tokens": saved.input_tokens or 0,
        "saved_output_tokens": saved.output_tokens or 0,
        "dropped": 0 if found is None else len(found.reading.dropped),
    }
    if found is not None and found.known:
        made["known"] = 1
    before: Values = models.get(model, {})
    ctx.note(judge={**models, model: {**before, **{name: before.get(name, 0) + n for name, n in made.items()}}})


V = TypeVar("V")

_LOG = logging.getLogger("penstock.judges")
_CACHE_TIMEOUT = 2.0  # seconds: a cache that hangs must not delay what it should speed up


class Judge(Generic[V]):
    """Asks a model for verdicts of one type, about content that may try to mislead it.

    A judge can be shared by processors, requests and event loops. The result is a `Judgement`, or a `JudgeError` is
    raised: an answer that cannot be read never counts as "nothing found". The attribute ``usage`` sums the tokens of
    all calls.

    Args:
        model: the model to ask, or its name, such as ``openai/gpt-5-mini``.
        verdict: the type of the verdicts: a pydantic model, or any other type that pydantic can validate. Fields
            without defaults are safer: if the model leaves one out, it is asked again.
        instructions: what to judge, and how, as a non-empty str. The judge adds the content and the form of the answer.
        settings: model settings. ``temperature`` is 0 unless it is set here, or the model refuses it, as OpenAI's
            reasoning models do; a setting that is None is not sent.
        provider_options: passed to the provider unchanged.
        structured: how the provider learns the form of the answer: ``schema`` (the JSON Schema; if the provider rejects
            it, later requests go without), ``json`` (any JSON object), ``prompt`` (not at all). The prompt states the
            schema in every case.
        timeout: seconds for each attempt, above 0, without the time it waits for its turn. Default: 30.
        retries: further attempts after temporary errors, timeouts, empty answers and unreadable answers; 0 or more.
        backoff: a function from the number of an attempt (2 or more) to the seconds to wait before it. If the provider
            asks for a wait, that is used instead.
        limit: the number of calls at the same time in one event loop, 1 or more.
        cache: stores verdicts under a hash of everything that was asked. ``memory``: the last 1,024 verdicts of this
            judge; None: no cache.
        ttl: seconds for which a verdict is stored, above 0; None: as long as the cache decides.
        max_characters: the longest content of a question, all contents together, in characters; 1 or more.
        ids: makes the delimiters around the content. They must be impossible to guess.

    Raises:
        OptionError: an option has a value that is not allowed, or pydantic has no JSON Schema for the type.
    """

    def __init__(
        self,
        model: Model | str,
        verdict: type[V],
        instructions: str,
        *,
        settings: Values = EMPTY,
        provider_options: Values = EMPTY,
        structured: Structured = "schema",
        timeout: float = 30.0,
        retries: int = 2,
        backoff: Backoff = wait_before,
        limit: int = 8,
        cache: Cache | Literal["memory"] | None = "memory",
        ttl: float | None = None,
        max_characters: int = 200_000,
        ids: Ids = RANDOM_IDS,
    ) -> None:
        self._begin(
            ModelAccess(
                "Judge",
                model,
                ids,
                settings=settings,
                provider_options=provider_options,
                structured=structured,
                timeout=timeout,
                retries=retries,
                backoff=backoff,
                limit=limit,
                cache=cache,
                ttl=ttl,
                max_characters=max_characters,
            ),
            verdict,
            instructions,
        )

    def _begin(self, access: ModelAccess, verdict: type[V], instructions: object) -> None:
        if not isinstance(instructions, str) or not instructions.strip():
            raise OptionError("Judge", "instructions", instructions, "a non-empty str that says what to judge")
        self.model = access.model
        self.instructions = instructions
        self._access = access
        self._one = _form(verdict, several=False)
        self._many = _form(verdict, several=True)
        self._calls = SingleFlight[str, JudgeReply]()
        self.usage = Usage(requests=0)

    async def ask(self, content: str, *, ctx: AnyContext | None = None) -> Judgement[V]:
        """Return the verdict about a content.

        Args:
            content: the text to judge; it is sent unchanged.
            ctx: the context of the hook that asks: the cost is added to its record and to the run's usage.

        Raises:
            JudgeError: the model gave no verdict, or the content is too long.
        """
        found, verdicts = await self._answered(self._one, (content,), ctx)
        return Judgement(verdicts[0], self.model.name, found.reading.dropped, found.attempts, found.usage)

    async def ask_all(self, contents: Sequence[str], *, ctx: AnyContext | None = None) -> Judgement[tuple[V, ...]]:
        """Return the verdicts about several contents, in order, from one call.

        The cache stores them together only, since one content may have influenced the verdict about another.

        Args:
            contents: the texts to judge, at least one.
            ctx: see `ask`.

        Raises:
            JudgeError: the model gave no verdict, or not one about each content; or the contents are too long.
            UsageError: there is no content, or it is a single str.
        """
        if isinstance(contents, str) or not contents:
            raise UsageError("ask_all takes a list of at least one text; use ask for a single text")
        form = self._one if len(contents) == 1 else self._many
        found, verdicts = await self._answered(form, tuple(contents), ctx)
        return Judgement(tuple(verdicts), self.model.name, found.reading.dropped, found.attempts, found.usage)

    async def _answered(
        self, form: VerdictForm[V], contents: tuple[str, ...], ctx: AnyContext | None
    ) -> tuple[JudgeReply, list[V]]:
        costs = JudgeCosts()
        try:
            found = await self._found(form, contents, costs, ctx)
        except BaseException:
            if ctx is not None:
                noted(ctx, self.model.name, costs)
            raise
        if ctx is not None:
            noted(ctx, self.model.name, costs, found)
        return found, form.verdicts(found.reading.data, len(contents))

    async def _found(
        self, form: VerdictForm[V], contents: tuple[str, ...], costs: JudgeCosts, ctx: AnyContext | None
    ) -> JudgeReply:
        most = self._access.max_characters
        if sum(map(len, contents)) > most:
            problem = f"the content has more than {most:,} characters; judge it in pieces, or raise max_characters"
            raise JudgeError(self.model.name, "too-long", problem, attempts=0)
        key = self._key(form, contents)
        log = None if ctx is None else ctx.judge_log
        if ctx is None or log is None:
            return await self._judged(key, form, contents, costs)
        public = f"{self.instructions}\n{json.dumps(form.schema)}"
        step = ctx.step_path, ctx.stage_name, ctx.step_number
        question = JudgeQuestion(key, contents, public, *step, self.model.name)
        known = _known(log.find(question), form, len(contents))
        if known is not None:
            return known
        found = await self._judged(key, form, contents, costs)
        await log.keep(question, JudgedVerdict(found.reading.data, found.reading.dropped, found.usage or found.saved))
        return found

    async def _judged(self, key: str, form: VerdictForm[V], contents: tuple[str, ...], costs: JudgeCosts) -> JudgeReply:
        """Return the verdict of the cache, of another task that asks the same, or of the model."""

        async def work() -> JudgeReply:
            known = await self._remembered(key, form, contents)
            return known if known is not None else await self._asked(key, form, contents, costs)

        found, shared = await self._calls.run(key, work, copy_error=error_for_others)
        return JudgeReply(found.reading, 0, None, cached=found.cached, saved=found.saved) if shared else found

    async def _asked(self, key: str, form: VerdictForm[V], contents: tuple[str, ...], costs: JudgeCosts) -> JudgeReply:
        try:
            found = await self._reply(form, contents, costs)
        finally:
            self._count(costs)
        await self._remember(key, found)
        return found

    async def _reply(self, form: VerdictForm[V], contents: tuple[str, ...], costs: JudgeCosts) -> JudgeReply:
        inquiry = Inquiry(self.instructions, form, contents)
        return await self._access.caller.ask(inquiry, self._access.limiter.get(), costs)

    def _count(self, costs: JudgeCosts) -> None:
        self.usage += costs.total

    async def _remembered(self, key: str, form: VerdictForm[V], contents: tuple[str, ...]) -> JudgeReply | None:
        cache, _ = self._access.cache_in_force()
        if cache is None:
            return None
        try:
            with anyio.fail_after(_CACHE_TIMEOUT):
                kept = await cache.get(key)
            if kept is None:
                return None
            known: Value = json.loads(kept)
            form.verdicts(known["data"], len(contents))
            reading = VerdictData(known["data"], tuple(known["dropped"]))
            return JudgeReply(reading, 0, None, cached=True, saved=_stored_usage(known.get("usage")))
        except (UnreadableError, LookupError, TypeError, ValueError):
            return None  # written by another version or another program
        except Exception as error:  # noqa: BLE001 - without its cache, the judge asks the model
            _LOG.warning("the cache of a judge could not be read: %s", type(error).__name__)
            return None

    async def _remember(self, key: str, found: JudgeReply) -> None:
        cache, ttl = self._access.cache_in_force()
        if cache is None:
            return
        try:
            with anyio.fail_after(_CACHE_TIMEOUT):
                usage = found.usage and (found.usage.input_tokens, found.usage.output_tokens)
                kept = json.dumps({"data": found.reading.data, "dropped": found.reading.dropped, "usage": usage})
                await cache.set(key, kept, ttl=ttl)
        except Exception as error:  # noqa: BLE001 - see above
            _LOG.warning("the cache of a judge could not be written: %s", type(error).__name__)

    def _key(self, form: VerdictForm[V], contents: tuple[str, ...]) -> str:
        """Return a hash of everything that the verdict depends on; it does not reveal the content."""
        asked = json.dumps(
            [*self._access.identity(self.instructions), form.schema, contents], sort_keys=True, default=repr
        )
        return f"penstock:judge:{hashlib.sha256(asked.encode()).hexdigest()}"

    def __repr__(self) -> str:
        """Show the model's name."""
        return f"Judge({self.model.name!r})"


def _known(found: JudgedVerdict | None, form: VerdictForm[V], count: int) -> JudgeReply | None:
    """Return a verdict that was given earlier in the run; None if there is none that fits the form."""
    if found is None:
        return None
    try:
        form.verdicts(found.data, count)
    except UnreadableError:
        return None
    return JudgeReply(VerdictData(found.data, found.dropped), 0, None, cached=True, saved=found.usage, known=True)


def error_for_others(error: Exception) -> JudgeError | None:
    """Return a judge's error for a task that waited for the same verdict; its tokens are counted once."""
    if not isinstance(error, JudgeError):
        return None
    copy = JudgeError(error.model, error.reason, error.problem, attempts=0)
    copy.__cause__ = error.__cause__
    return copy


def _stored_usage(value: Value) -> Usage | None:
    """Return the tokens that a cache has; None if it has none, or something else."""
    match value:
        case [int() as read, int() as written]:
            return Usage(read, written)
        case _:
            return None


def _form(verdict: type[V], *, several: bool) -> VerdictForm[V]:
    from pydantic.errors import PydanticUserError

    try:
        return VerdictForm(verdict, several=several)
    except PydanticUserError as error:
        raise OptionError("Judge", "verdict", verdict, "a type that pydantic can write a JSON Schema of") from error
