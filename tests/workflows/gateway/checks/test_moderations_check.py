"""OpenAI's moderations, asked with OpenAI's own client."""

import json

import openai
import pytest
from openai.types import ModerationCreateResponse

from penstock import ModerationProcessor, PIIDetector, RegexFilterProcessor, UnicodeNormalizer
from penstock.workflows.gateway.checks.moderations import CATEGORIES
from tests.workflows.gateway.checks.served import BLOCKS, Checks, breaks, policy

HARM = "I will kill you, you stupid worthless idiot"


def client(checks: Checks) -> openai.AsyncOpenAI:
    """Return OpenAI's client for the checks."""
    return openai.AsyncOpenAI(base_url=f"{checks.client.base_url}/v1", api_key="none", max_retries=0)


async def judged(checks: Checks, given: object) -> ModerationCreateResponse:
    """Return the answer as OpenAI's client reads it."""
    async with client(checks) as asking:
        return await asking.moderations.create(input=given, model="omni-moderation-latest")  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["warn", "block"])
async def test_scores_and_categories_come_from_the_policy(checks: Checks, strategy: str) -> None:
    """Whether it lets such a text pass or not."""
    checks.policy = policy(ModerationProcessor(strategy=strategy))  # type: ignore[arg-type]
    harm, fine = (await judged(checks, [HARM, "What is the weather like?"])).results
    assert harm.flagged
    assert harm.categories.harassment
    assert harm.categories.violence
    assert harm.category_scores.violence > 0.5
    assert harm.category_applied_input_types.violence == ["text"]
    assert harm.category_applied_input_types.illicit == []
    assert not fine.flagged
    assert not any(fine.categories.model_dump().values())


async def test_each_result_has_all_13_categories(checks: Checks) -> None:
    """Under OpenAI's names, also where no guard judges them."""
    result = (await checks.ask("/v1/moderations", {"input": "Hi"}))["results"][0]
    assert len(CATEGORIES) == 13
    for name in ("categories", "category_scores", "category_applied_input_types"):
        assert tuple(result[name]) == CATEGORIES


async def test_what_is_blocked_or_hidden_is_flagged(checks: Checks) -> None:
    """A caller can only take a text or leave it. What is merely tidied up is not flagged."""
    checks.policy = policy(UnicodeNormalizer(), PIIDetector(), BLOCKS)
    found = (await judged(checks, ["Mail ann@example.com", "about Globex", "ﬁne\u200b"])).results
    assert [result.flagged for result in found] == [True, True, False]
    assert not any(found[0].categories.model_dump().values())


async def test_warnings_of_other_guards_are_flagged(checks: Checks) -> None:
    """Their names are no categories."""
    checks.policy = policy(RegexFilterProcessor(banned_words=["globex"], strategy="warn"))
    assert (await judged(checks, "about Globex")).results[0].flagged


async def test_parts_have_one_result_and_images_follow_the_policy(checks: Checks) -> None:
    """A guard blocks what it cannot read, or is told to let it pass."""
    image = {"type": "image_url", "image_url": {"url": "https://images.example/a.png"}}
    for unscanned, flagged in (("block", True), ("allow", False)):
        checks.policy = policy(PIIDetector(unscanned=unscanned))  # type: ignore[arg-type]
        (result,) = (await judged(checks, [{"type": "text", "text": "Hi"}, image])).results
        assert result.flagged is flagged


async def test_a_guard_that_breaks_flags(checks: Checks) -> None:
    """Nobody knows whether the text may pass."""
    checks.policy = policy(breaks)
    said = await checks.ask("/v1/moderations", {"input": "ann@example.com"})
    assert said["results"][0]["flagged"]
    assert said["results"][0]["penstock"] == {"verdict": "blocked", "guard": "breaks", "failed": True}
    assert "ann@" not in json.dumps(said)


@pytest.mark.parametrize("given", [[], None, 1, [1, 2], ["a", 1], [{"type": "audio"}], [{"type": "image_url"}], [[1]]])
async def test_malformed_input_is_openais_bad_request(checks: Checks, given: object) -> None:
    """With the parameter that is wrong."""
    with pytest.raises(openai.BadRequestError) as caught:
        await judged(checks, given)
    assert str(caught.value.param).startswith("input")
    assert caught.value.type == "invalid_request_error"
