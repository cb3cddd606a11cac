"""Panels: judges that ask about the same contents in one request, and what each makes of the answer."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from pydantic import BaseModel

from penstock import Chunk, ModelError, OptionError
from penstock.engine import JudgeError
from penstock.engine.values.model import ModelRequest, Usage
from penstock.engine.values.protocols import LRUCache
from penstock.models import Judge, JudgePanel
from penstock.testing import ScriptedModel


class Rude(BaseModel):
    """Whether a text is rude."""

    rude: bool


class Tongue(BaseModel):
    """The language of a text."""

    language: str


BOTH = {"q1_rudeness": {"rude": True}, "q2_tongue": {"language": "fr"}}


def at_once(attempt: int) -> float:
    """No wait before an attempt."""
    return 0.0


def judges(model: Any, **options: Any) -> tuple[JudgePanel, Judge[Rude], Judge[Tongue]]:
    """A panel of two judges that do not wait between attempts."""
    panel = JudgePanel(model, backoff=at_once, **options)
    return panel, panel.judge_for("rudeness", Rude, "Is it rude?"), panel.judge_for("tongue!", Tongue, "Which tongue?")


def fields(request: ModelRequest) -> list[str]:
    """The fields of the answer that a request asks for."""
    assert request.response_format is not None
    assert request.response_format.schema is not None
    return list(request.response_format.schema["properties"])


async def together(*asked: Any) -> list[Any]:
    """What some questions, asked at the same time, give: judgements or errors."""
    found: list[Any] = [None] * len(asked)

    async def ask(index: int, judge: Any, content: Any) -> None:
        try:
            found[index] = await (judge.ask(content) if isinstance(content, str) else judge.ask_all(content))
        except JudgeError as error:
            found[index] = error

    async with anyio.create_task_group() as group:
        for index, (judge, content) in enumerate(asked):
            group.start_soon(ask, index, judge, content)
    return found


async def test_judges_that_ask_about_one_text_at_once_share_a_request() -> None:
    """It holds both questions, once the text, and a field for each answer."""
    model = ScriptedModel([{"object": BOTH}])
    _, rude, tongue = judges(model)
    first, second = await together((rude, "Salut, idiot."), (tongue, "Salut, idiot."))
    assert (first.verdict, second.verdict) == (Rude(rude=True), Tongue(language="fr"))
    (request,) = model.requests
    system, user = request.messages
    assert "# q1_rudeness\n\nIs it rude?" in system.text
    assert "# q2_tongue\n\nWhich tongue?" in system.text
    assert user.text.count("Salut, idiot.") == 1
    assert fields(request) == ["q1_rudeness", "q2_tongue"]
    assert request.response_format is not None
    assert request.response_format.strict


async def test_the_same_questions_make_the_same_request_whoever_asks_first() -> None:
    """So that a provider can cache the beginning of the prompt."""
    model = ScriptedModel([{"object": BOTH}], repeat_last=True)
    _, rude, tongue = judges(model, cache=None)
    await together((rude, "a"), (tongue, "a"))
    await together((tongue, "b"), (rude, "b"))
    one, two = (request.messages[0].text.partition("The content to judge")[0] for request in model.requests)
    assert one == two


async def test_a_judge_that_asks_by_itself_makes_the_request_of_a_judge_without_a_panel() -> None:
    """Question, form and verdict are those of a `Judge`."""
    model = ScriptedModel([{"object": {"rude": False}}], repeat_last=True)
    _, rude, _ = judges(model)
    alone = Judge(model, Rude, "Is it rude?")
    assert (await rude.ask("text")).verdict == (await alone.ask("text")).verdict == Rude(rude=False)
    ours, theirs = model.requests
    assert ours.response_format == theirs.response_format
    before = [request.messages[0].text.partition("The content to judge")[0] for request in (ours, theirs)]
    assert before[0] == before[1]


async def test_questions_about_different_texts_stay_apart() -> None:
    """One text cannot influence what is said about another."""
    model = ScriptedModel([{"object": {"rude": False, "language": "en"}}], repeat_last=True)
    _, rude, tongue = judges(model)
    await together((rude, "one"), (tongue, "other"))
    assert sorted(fields(request) for request in model.requests) == [["language"], ["rude"]]


async def test_tokens_of_a_shared_request_are_counted_once() -> None:
    """For the judge whose task made it, and for the panel."""
    model = ScriptedModel([{"object": BOTH, "usage": {"input_tokens": 5, "output_tokens": 7}}])
    panel, rude, tongue = judges(model)
    found = await together((rude, "text"), (tongue, "text"))
    assert sorted(each.attempts for each in found) == [0, 1]
    assert [each.usage for each in found if each.usage] == [Usage(5, 7)]
    assert panel.usage == rude.usage + tongue.usage == Usage(5, 7)


async def test_several_texts_are_shared_as_one_is() -> None:
    """Each field then holds a verdict about each text."""
    answer = {
        "q1_rudeness": {"verdicts": [{"content": n, "verdict": {"rude": n == 1}} for n in (1, 2)]},
        "q2_tongue": {"verdicts": [{"content": n, "verdict": {"language": "fr"}} for n in (2, 1)]},
    }
    model = ScriptedModel([{"object": answer}])
    _, rude, tongue = judges(model)
    first, second = await together((rude, ["a", "b"]), (tongue, ["a", "b"]))
    assert [each.rude for each in first.verdict] == [True, False]
    assert [each.language for each in second.verdict] == ["fr", "fr"]


@pytest.mark.parametrize("told", [None, {}, {"language": 3}, "fr", [{"language": "fr"}]])
async def test_a_judge_without_an_answer_asks_again_by_itself(told: object) -> None:
    """The others have their verdict from the shared answer."""
    answer = {"q1_rudeness": {"rude": True}} | ({"q2_tongue": told} if told is not None else {})
    model = ScriptedModel([{"object": answer}, {"object": {"language": "fr"}}])
    _, rude, tongue = judges(model)
    first, second = await together((rude, "text"), (tongue, "text"))
    assert (first.verdict, second.verdict) == (Rude(rude=True), Tongue(language="fr"))
    assert [fields(request) for request in model.requests] == [["q1_rudeness", "q2_tongue"], ["language"]]


@pytest.mark.parametrize("retries", [0, 2])
async def test_a_judge_that_never_gets_an_answer_fails_alone(retries: int) -> None:
    """After as many calls as it may make, the shared one included."""
    model = ScriptedModel([{"object": {"q1_rudeness": {"rude": True}}}, {"object": {"no": 1}}], repeat_last=True)
    _, rude, tongue = judges(model, retries=retries)
    first, second = await together((rude, "text"), (tongue, "text"))
    assert first.verdict == Rude(rude=True)
    assert isinstance(second, JudgeError)
    assert second.reason == "unreadable"
    assert len(model.requests) == 1 + retries


async def test_an_answer_in_which_nothing_can_be_read_is_asked_for_again() -> None:
    """Together, and the model is told what is wrong."""
    model = ScriptedModel([{"object": {"q1_rudeness": {}, "q2_tongue": {}}}, {"object": BOTH}])
    _, rude, tongue = judges(model)
    first, second = await together((rude, "text"), (tongue, "text"))
    assert (first.verdict.rude, second.verdict.language) == (True, "fr")
    assert "q1_rudeness: it is no object with any of the fields rude" in model.requests[1].messages[1].text


async def test_a_request_that_fails_fails_for_each_judge() -> None:
    """Each raises an error of its own; the calls are counted once."""
    model = ScriptedModel([{"error": ModelError("m", "no", status=401)}], repeat_last=True)
    panel, rude, tongue = judges(model)
    found = await together((rude, "text"), (tongue, "text"))
    assert [each.reason for each in found] == ["model", "model"]
    assert sorted(each.attempts for each in found) == [0, 1]
    assert found[0] is not found[1]
    assert (len(model.requests), panel.usage.requests) == (1, 1)


async def test_a_verdict_is_cached_for_its_question() -> None:
    """Later only what is not known is asked; and a judge without a panel finds it, too."""
    model = ScriptedModel([{"object": {"rude": True}}, {"object": {"language": "fr"}}])
    cache = LRUCache()
    _, rude, tongue = judges(model, cache=cache)
    await rude.ask("text")
    first, second = await together((rude, "text"), (tongue, "text"))
    assert (first.cached, second.verdict.language) == (True, "fr")
    assert (await Judge(model, Tongue, "Which tongue?", cache=cache).ask("text")).cached
    assert [fields(request) for request in model.requests] == [["rude"], ["language"]]


class SlowCache(LRUCache):
    """A cache that takes longer for one look-up than for another."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    async def get(self, key: str) -> str | None:
        """Look a verdict up, after some turns of the event loop."""
        self.turns += 50
        for _ in range(self.turns):
            await checkpoint()
        return await super().get(key)


async def test_a_slow_cache_does_not_keep_judges_apart() -> None:
    """A request waits for a judge that looks into the cache."""
    model = ScriptedModel([{"object": BOTH}])
    _, rude, tongue = judges(model, cache=SlowCache())
    await together((rude, "text"), (tongue, "text"))
    assert len(model.requests) == 1


class Waiting:
    """A model of which the first call never ends."""

    name = "m"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.asked = anyio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Wait for ever, or answer."""
        self.requests.append(request)
        if len(self.requests) == 1:
            self.asked.set()
            await anyio.sleep_forever()
        answer = {"rude": True} if fields(request) == ["rude"] else {"language": "fr"}
        async for chunk in ScriptedModel([{"object": answer}]).stream(request):
            yield chunk


@pytest.mark.parametrize("first", [0, 1])
async def test_a_judge_that_is_cancelled_takes_its_question_with_it(first: int) -> None:
    """Another makes the request then, for those that are left."""
    model = Waiting()
    _, *asked = judges(model)
    leader, other = asked[first], asked[1 - first]
    found: list[Any] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def lead() -> None:
                with scope:
                    await leader.ask("text")

            async def wait() -> None:
                found.append((await other.ask("text")).verdict)

            group.start_soon(lead)
            await checkpoint()
            group.start_soon(wait)
            await model.asked.wait()
            scope.cancel()
    assert found in ([Rude(rude=True)], [Tongue(language="fr")])
    assert [len(fields(request)) for request in model.requests] == [2, 1]


async def test_nothing_of_a_request_is_kept_when_it_has_ended() -> None:
    """Neither questions nor contents."""
    model = ScriptedModel([{"object": BOTH}])
    panel, rude, tongue = judges(model)
    await together((rude, "text"), (tongue, "text"))
    gathering = panel._gathering  # pyright: ignore[reportPrivateUsage] # what is kept is seen nowhere else
    assert not gathering._tables.get()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("option", "given"), [("timeout", 0), ("retries", -1), ("limit", 0), ("cache", 3), ("structured", "xml")]
)
def test_options_are_checked_when_the_panel_is_made(option: str, given: object) -> None:
    """The error names the panel, and the option."""
    options: Any = {option: given}
    with pytest.raises(OptionError, match=f"JudgePanel.*{option}"):
        JudgePanel(ScriptedModel([]), **options)


def test_a_panel_shows_its_model() -> None:
    """And nothing of how it is asked."""
    assert repr(JudgePanel(ScriptedModel([], name="m"), settings={"api_key": "secret"})) == "JudgePanel('m')"
