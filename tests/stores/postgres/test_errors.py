"""What PostgresStorage says where it cannot be: the reason, the cure, and never a password."""

import traceback

import pytest

from penstock import OptionError, StorageError
from penstock.engine import MissingExtraError
from penstock.stores.postgres import PostgresStorage
from penstock.stores.postgres._connections import is_temporary, problem, quotes_data

URL = "postgresql://user:pass-word@127.0.0.1:1/data"


async def test_a_server_that_is_not_there_is_an_error_that_says_where_it_was_looked_for():
    """Without user and password, down to the last line of the traceback."""
    store = PostgresStorage(URL, retry_for=0)
    with pytest.raises(StorageError, match=r"at 127\.0\.0\.1:1/data, schema penstock: it cannot be") as caught:
        await store.thread("t")
    told = "".join(traceback.format_exception(caught.value))
    assert "pass-word" not in told
    assert isinstance(caught.value.__cause__, OSError)


def test_what_shows_a_store_shows_no_password():
    """Nor the user."""
    assert repr(PostgresStorage(URL)) == "<PostgresStorage at 127.0.0.1:1/data, schema penstock>"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://localhost", "localhost/"),
        ("postgres://u:p%40%2F@h1:1,h2:2/a%20b?sslmode=require", "h1:1,h2:2/a b"),
        ("postgresql://u:@/db?host=/run/place&password=pass-word", "/run/place/db"),
        ("postgresql:///?dbname=x", "the default host/x"),
        ("postgresql://u:p@[::1]:5432/db", "[::1]:5432/db"),
    ],
)
def test_a_url_is_shown_without_what_is_secret(url, shown):
    """Hosts and database, of every form that there is."""
    assert repr(PostgresStorage(url)) == f"<PostgresStorage at {shown}, schema penstock>"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:pass-word@host/db",
        "postgresql://u:pass-word/more@host/db",
        "postgresql://u:12/pass-word@host/db",
        "postgresql://u:pass-word#more@host/db",
        "postgresql://u:12#pass-word@host/db",
        "postgresql://u:pass-word?more@host/db",
        "postgresql://u:pass-word@host:port/db",
        "postgresql://[pass-word/db",
        "pass-word",
        None,
    ],
)
def test_a_url_that_is_none_is_refused_without_showing_it(url):
    """What is misread may be a piece of the password."""
    with pytest.raises(OptionError) as caught:
        PostgresStorage(url)
    assert "pass-word" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "options",
    [
        {"schema": ""},
        {"schema": 'a"; DROP'},
        {"schema": "pg_own"},
        {"schema": "a" * 64},
        {"max_connections": 0},
        {"max_connections": True},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": True},
        {"retry_for": -1},
        {"retry_for": float("inf")},
        {"vector_search": "fast"},
        {"memory_versions": 9},
        {"connect_options": 5},
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options):
    """Before anything is connected to."""
    with pytest.raises(OptionError):
        PostgresStorage(URL, **options)


class Failure(Exception):  # noqa: N818 - as the driver names them
    """An error as the driver has it."""

    def __init__(self, code):
        self.sqlstate = code
        super().__init__("DETAIL: Key (id)=(secret) already exists")


@pytest.mark.parametrize("code", ["08006", "57P01", "57P03", "40P01", "40001", "53300"])
def test_what_passes_is_tried_again(code):
    """The server is away, or others are in the way."""
    assert is_temporary(Failure(code))


@pytest.mark.parametrize("code", ["28P01", "3D000", "42501", "22021", "23505", "57014", "53100", "XX000"])
def test_what_does_not_pass_is_said_at_once(code):
    """In words that quote nothing."""
    assert not is_temporary(Failure(code))
    assert "secret" not in problem(Failure(code), 30)


def test_errors_that_quote_data_are_nobodys_cause():
    """A traceback would show it."""
    assert quotes_data(Failure("23505"))
    assert quotes_data(Failure("22P05"))
    assert not quotes_data(Failure("57P01"))


def test_without_the_extra_it_says_which_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is made; importing it costs nothing (tests/core)."""
    monkeypatch.setattr("penstock.stores.postgres._connections._IS_INSTALLED", False)
    with pytest.raises(MissingExtraError, match=r"penstock\[postgres\]"):
        PostgresStorage("postgresql://127.0.0.1/none")
