"""Errors: what a log may say of one."""

from penstock.engine.values.errors import OptionError, without_text


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
