"""`open_storage`: a file or a server by its address, which is shown without a password."""

from pathlib import Path

import pytest

from penstock import SQLiteStorage
from penstock.engine import UsageError
from penstock.stores.opening import open_storage, shown_address


@pytest.mark.parametrize("beginning", ["", "sqlite:", "sqlite://"])
def test_a_file_is_opened_by_its_path(tmp_path: Path, beginning: str) -> None:
    """With the scheme or without."""
    path = tmp_path / "runs.db"
    path.touch()
    found = open_storage(f"{beginning}{path}")
    assert isinstance(found, SQLiteStorage)
    assert (found.path, shown_address(f"{beginning}{path}")) == (str(path), str(path))


def test_a_file_that_is_not_there_is_created_only_if_asked(tmp_path: Path) -> None:
    """A mistyped path makes no empty store."""
    path = tmp_path / "runs.db"
    with pytest.raises(UsageError, match="there is no file"):
        open_storage(str(path))
    assert isinstance(open_storage(str(path), creates=True), SQLiteStorage)


def test_a_server_is_shown_without_user_password_and_options() -> None:
    """A password may hold an @."""
    shown = shown_address("postgresql://eve:s@cret@db.example:5432/app?sslmode=require")
    assert shown == "postgresql://db.example:5432/app"
