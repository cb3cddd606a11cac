"""docs/formats-coverage.md says how guards read each field: it is as the formats are, and no field is unread."""

from penstock.formats import FORMATS
from tests.formats.coverage_page import PAGE, UNREAD, fields_of, page


def test_the_page_is_up_to_date() -> None:
    """If not: ``python -m tests.formats.coverage_page``."""
    assert PAGE.read_text("utf-8") == page()


def test_no_field_of_a_format_is_unread() -> None:
    """A guard is given each text, or the message is refused."""
    unread = {(name, path) for name in FORMATS for path, words in fields_of(name).items() if UNREAD in words}
    assert unread == set()
