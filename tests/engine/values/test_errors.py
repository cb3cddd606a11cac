"""Errors: what a log may say of one."""

import pickle

import pytest

from penstock.engine.values.errors import (
    ModelError,
    OptionError,
    PenstockError,
    ReviewError,
    StepFailedError,
    without_text,
)
from penstock.engine.values.tripwire import BlockedError, Tripwire


def test_a_log_says_where_an_error_was_raised_and_not_its_text() -> None:
    """Nor that of its cause: both may quote what guards have hidden."""
    try:
        try:
            raise KeyError("ada@example.com")  # noqa: TRY301
        except KeyError as cause:
            raise ValueError("write to ada@example.com") from cause
    except ValueError as error:
        said = without_text(error)
    assert said.startswith("ValueError, caused by KeyError\n")
    assert "test_errors.py" in said
    assert "ada@" not in said


def test_an_option_that_is_nested_too_deeply_is_named_by_its_type() -> None:
    """The error is about the option, not about how it would be shown."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "option 'words' is a list that is nested too deeply, but must be" in str(
        OptionError("P", "words", deep, "x")
    )


@pytest.mark.parametrize(
    "error",
    [
        OptionError("P", "words", 1, "x"),
        StepFailedError("step", "p", "process_input", "it timed out"),
        ModelError("gpt", "is down", status=503),
        ReviewError("run-1", "it waits"),
        BlockedError(Tripwire("why", "p", "process_input")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_can_be_pickled(error: PenstockError) -> None:
    """Engines of durable execution record them so."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
