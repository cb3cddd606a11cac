"""Whether a refused prefill is continued, once, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import (
    Message,
    MessageList,
    ModelError,
    OptionError,
    Outcome,
    PrefillErrorHandler,
    StreamErrorRetryProcessor,
    Workflow,
)
from penstock.engine import SyncRun

REFUSED = "This model does not support assistant message prefill."
ASKED = [Message.user("Count to three."), Message.assistant("One,")]


def started(processor: PrefillErrorHandler | None = None, **options: Any) -> SyncRun:
    """Return a run whose conversation ends with an answer."""
    run = Workflow("w").then(processor or PrefillErrorHandler()).start_sync(records=True, **options)
    run.process_input(MessageList(ASKED))
    return run


def failing(run: SyncRun, message: str = REFUSED, **details: Any) -> Outcome:
    """Return what comes of a failed call."""
    return run.process_api_error(ModelError("m", message, status=400, **details))


def texts(run: SyncRun) -> list[str]:
    """Return the texts of the conversation."""
    return [message.text for message in run.message_list]


def test_a_message_is_added_as_context_and_stays() -> None:
    """It is neither the user's nor an answer, and says who added it."""
    run = started()
    outcome = failing(run)
    assert outcome.retry_granted
    assert outcome.retry is not None
    assert outcome.retry.after == 0
    assert texts(run) == ["Count to three.", "One,", "Continue."]
    [added] = run.message_list.of("context")
    assert added.role == "user"
    assert added.metadata == {"penstock": {"added_by": "prefill-error-handler"}}
    run.process_input_step()
    assert texts(run) == ["Count to three.", "One,", "Continue."]
    assert dict(outcome.records[-1].details) == {"kind": "prefill"}


def test_it_helps_once_for_each_call() -> None:
    """A second refusal is an error; the next step's call is another one."""
    run = started()
    assert failing(run).retry_granted
    assert failing(run).retry is None
    run.process_output_step("two, three.")
    assert failing(run).retry_granted


def test_retries_for_other_reasons_do_not_count() -> None:
    """A rate limit that came first is no reason to give up."""

    def retries_429(error: BaseException) -> bool:
        return getattr(error, "status", None) == 429

    both = Workflow("w").then(PrefillErrorHandler()).then(StreamErrorRetryProcessor(matchers=[retries_429], delay=0))
    run = both.start_sync()
    run.process_input(MessageList(ASKED))
    assert run.process_api_error(ModelError("m", "slow", status=429)).retry_granted
    assert texts(run) == ["Count to three.", "One,"]
    assert failing(run).retry_granted
    assert texts(run)[-1] == "Continue."


@pytest.mark.parametrize(
    "message",
    [
        REFUSED.upper(),
        "Assistant response prefill is incompatible with enable_thinking.",
        "assistant response prefill is incompatible with enable-thinking",
        "Requests ending with a model turn are not supported unless the last part is a function response.",
        "The model returned the following errors: A conversation must end with a user message. Try again.",
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    ],
)
def test_every_provider_says_it_in_its_own_words(message: str) -> None:
    """In any case."""
    assert failing(started(), message).retry_granted


def test_the_body_and_the_causes_are_read_too() -> None:
    """An error of the provider's may say no more than its status; an error of ours may be wrapped."""
    assert failing(started(), "the provider gave no answer", body=f'{{"error": "{REFUSED}"}}').retry_granted
    wrapped = RuntimeError("it failed")
    wrapped.__cause__ = ValueError(REFUSED)
    assert started().process_api_error(wrapped).retry_granted


@pytest.mark.parametrize(
    "error",
    [ModelError("m", "the context is too long", status=400), ValueError("no"), KeyError(), {"message": REFUSED}],
    ids=str,
)
def test_all_other_errors_are_let_be(error: Any) -> None:
    """And what is no exception says nothing of its body."""
    run = started()
    assert run.process_api_error(error).retry is None
    assert texts(run) == ["Count to three.", "One,"]


def test_other_words_may_be_added() -> None:
    """For a provider that is not known, and for models that understand another language."""
    processor = PrefillErrorHandler(text="Weiter, bitte.", phrases="kein (Anfang)")
    run = started(processor)
    assert failing(run, "Diesem Modell gibt man KEIN (ANFANG) vor").retry_granted
    assert texts(run)[-1] == "Weiter, bitte."


def test_the_budget_of_the_run_holds() -> None:
    """What it does not allow is not done."""
    assert not failing(started(max_error_retries=0)).retry_granted


@pytest.mark.parametrize(
    "options", [{"text": " "}, {"text": None}, {"phrases": [""]}, {"phrases": [1]}, {"phrases": None}], ids=str
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """The error names the option."""
    with pytest.raises(OptionError, match=next(iter(options))):
        PrefillErrorHandler(**options)


def test_what_it_declares() -> None:
    """It protects nothing, so its failure stops nothing."""
    processor = PrefillErrorHandler(id="mine")
    assert (processor.id, processor.role, processor.on_error) == ("mine", "transform", "allow")
    assert processor == PrefillErrorHandler(id="mine") != PrefillErrorHandler(id="mine", text="Go on.")
