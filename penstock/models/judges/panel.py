"""`JudgePanel`: several judges that ask one model about the same contents in one request.

Each judge of a panel caches its verdicts and shares equal questions as any `Judge` does. The remaining questions are
gathered: the first one about some contents waits until no other judge is about to ask about them. Then its task
makes the request for all of them, and the others wait for the answer, which has a field for each question.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, Unpack

import anyio
from anyio.lowlevel import checkpoint

from penstock.engine.values.model import JudgeError, Usage
from penstock.engine.values.protocols import RANDOM_IDS
from penstock.models.judges.access import ModelAccess
from penstock.models.judges.judge import Judge, error_for_others
from penstock.models.judges.lenient_json import UnreadableError
from penstock.models.judges.verdict_forms import SharedForm, VerdictForm
from penstock.models.judges.verdict_requests import Inquiry, JudgeCosts, JudgeReply
from penstock.models.single_flight import PerEventLoop, SingleFlight

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Ids, Model
    from penstock.models.judges.options import JudgeOptions


V = TypeVar("V")

_CALM_TURNS = 5  # turns of the event loop without a further question, after which the request is made
_KEPT_FORMS = 64  # combinations of questions whose form is kept


class JudgePanel:
    """Lets several guards ask a model about the same text in one request. Give it to each of them as ``model=``.

    The request holds the question of each guard, and the answer a field for each. Guards share a request if they ask
    about the same text at the same time: those side by side in a `Workflow.parallel`. A guard that asks by itself makes
    the request that it would make without a panel.

    If the request fails, each guard fails, by its own policy. If the answer lacks a guard's field, or the field is
    invalid, only that guard asks again, by itself, and then fails alone. Tokens are counted once.

    Attributes:
        model: the model.
        name: the name of the model.
        usage: the tokens of all calls of the panel.

    Args:
        model: the model to ask, or its name.
        ids: see `Judge`.
        options: how the model is asked: the options of `Judge` from ``settings`` to ``max_characters``. They count for
            the panel as a whole: ``limit`` requests at once, one cache.

    Raises:
        OptionError: an option has a value that is not allowed.
    """

    def __init__(self, model: Model | str, *, ids: Ids = RANDOM_IDS, **options: Unpack[JudgeOptions]) -> None:
        access = ModelAccess("JudgePanel", model, ids, **options)
        self._gathering = _Gathering(access)
        self.model = access.model
        self.name = access.model.name

    @property
    def usage(self) -> Usage:
        """The tokens of all calls of the panel."""
        return self._gathering.usage

    def judge_for(self, name: str, verdict: type[V], instructions: str) -> Judge[V]:
        """Return a judge of the panel.

        Args:
            name: the name of its question, such as the id of a guard; the model is shown it.
            verdict: the type of its verdicts.
            instructions: the question, and how to judge.

        Raises:
            OptionError: the verdict or the instructions are not allowed; see `Judge`.
        """
        return _Member(self._gathering, name, verdict, instructions)

    def __repr__(self) -> str:
        """Show the model's name."""
        return f"JudgePanel({self.name!r})"


class _Question(NamedTuple):
    """The question of a judge: its name, its instructions, and the form of its answer."""

    name: str
    instructions: str
    form: VerdictForm[Value]


class _Member(Judge[V]):
    """A judge of a panel."""

    def __init__(self, gathering: _Gathering, name: str, verdict: type[V], instructions: str) -> None:
        self._begin(gathering.access, verdict, instructions)
        self._gathering = gathering
        self._name = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40] or "question"

    async def _remembered(self, key: str, form: VerdictForm[V], contents: tuple[str, ...]) -> JudgeReply | None:
        with self._gathering.arriving(contents):
            return await super()._remembered(key, form, contents)

    async def _reply(self, form: VerdictForm[V], contents: tuple[str, ...], costs: JudgeCosts) -> JudgeReply:
        question = _Question(self._name, self.instructions, form)
        return await self._gathering.ask(question, contents, costs)

    def _count(self, costs: JudgeCosts) -> None:
        super()._count(costs)
        self._gathering.usage += costs.total


class _Table:
    """The questions about some contents, until they are asked.

    Attributes:
        questions: the questions.
        arriving: how many judges look into the cache, and may have a question then.
        settled: is set when none arrives any more.
    """

    __slots__ = ("arriving", "questions", "settled")

    def __init__(self) -> None:
        self.questions: list[_Question] = []
        self.arriving = 0
        self.settled = anyio.Event()

    async def is_full(self) -> None:
        """Wait until no judge is about to ask."""
        calm = 0
        while calm < _CALM_TURNS:
            count = len(self.questions)
            if self.arriving:
                await self.settled.wait()
            await checkpoint()
            calm = calm + 1 if len(self.questions) == count and not self.arriving else 0


class _Reply(NamedTuple):
    """The model's answer to a single question, or, with their form, to several ones, by the names of their fields."""

    reply: JudgeReply
    form: SharedForm | None
    fields: Mapping[_Question, str]


class _Gathering:
    """The questions of a panel that have not been answered."""

    def __init__(self, access: ModelAccess) -> None:
        self.access = access
        self.usage = Usage(requests=0)
        self._tables: PerEventLoop[dict[tuple[str, ...], _Table]] = PerEventLoop(dict[tuple[str, ...], _Table])
        self._calls = SingleFlight[_Table, _Reply]()
        self._form = lru_cache(_KEPT_FORMS)(_shared_form)

    @contextmanager
    def arriving(self, contents: tuple[str, ...]) -> Generator[None]:
        """Make questions about the contents wait for one that may come."""
        tables = self._tables.get()
        table = tables.setdefault(contents, _Table())
        table.arriving += 1
        try:
            yield
        finally:
            table.arriving -= 1
            if not table.arriving:
                table.settled.set()
                table.settled = anyio.Event()
                self._close_unused(contents, table)

    def _close_unused(self, contents: tuple[str, ...], table: _Table) -> None:
        if not table.questions and not table.arriving:
            self._close(contents, table)

    def _close(self, contents: tuple[str, ...], table: _Table) -> None:
        tables = self._tables.get()
        if tables.get(contents) is table:
            del tables[contents]

    async def ask(self, question: _Question, contents: tuple[str, ...], costs: JudgeCosts) -> JudgeReply:
        """Return the answer to a question, from a request with others or from one of its own.

        The costs of a request are added to those of the task that makes it.

        Raises:
            JudgeError: the model gave no answer to it.
        """
        table = self._tables.get().setdefault(contents, _Table())
        table.questions.append(question)
        try:
            work = partial(self._asked, table, contents, costs)
            found, _ = await self._calls.run(table, work, copy_error=error_for_others)
        finally:
            table.questions.remove(question)
            self._close_unused(contents, table)
        if found.form is None:
            return found.reply
        part = found.form.part(found.fields[question], found.reply.reading.data, len(contents))
        if isinstance(part, UnreadableError):
            return await self._asked_again(question, contents, costs, part, found.reply.retries)
        return JudgeReply(part, costs.attempts, costs.usage)

    async def _asked(self, table: _Table, contents: tuple[str, ...], costs: JudgeCosts) -> _Reply:
        await table.is_full()
        self._close(contents, table)
        questions = sorted(dict.fromkeys(table.questions), key=lambda each: each[:2])
        fields = {question: f"q{number}_{question.name}" for number, question in enumerate(questions, 1)}
        if len(questions) == 1:
            form, inquiry = None, Inquiry(questions[0].instructions, questions[0].form, contents)
        else:
            form = self._form(tuple(fields.items()))
            inquiry = Inquiry(_instructions(fields), form, contents)
        reply = await self.access.caller.ask(inquiry, self.access.limiter.get(), costs)
        return _Reply(reply, form, fields)

    async def _asked_again(
        self, question: _Question, contents: tuple[str, ...], costs: JudgeCosts, why: UnreadableError, retries: int
    ) -> JudgeReply:
        """Ask a question by itself, since the answer to several ones did not answer it.

        Raises:
            JudgeError: the model gave no answer to it, or no retry is left.
        """
        if not retries:
            problem = f"the answer to several questions is none to {question.name!r}: {why}"
            name = self.access.model.name
            raise JudgeError(name, "unreadable", problem, attempts=costs.attempts, usage=costs.usage)
        inquiry = Inquiry(question.instructions, question.form, contents)
        return await self.access.caller.ask(inquiry, self.access.limiter.get(), costs, retries=retries - 1)


def _shared_form(fields: Iterable[tuple[_Question, str]]) -> SharedForm:
    return SharedForm({name: question.form for question, name in fields})


def _instructions(fields: Mapping[_Question, str]) -> str:
    together = (
        f"You are asked {len(fields)} questions about the content. Answer each by itself, by its own instructions"
        " alone: an answer to one changes nothing in the others. Each answer goes into the field that has the name of"
        " its question; give all of them."
    )
    return "\n\n".join([together, *(f"# {name}\n\n{question.instructions}" for question, name in fields.items())])
