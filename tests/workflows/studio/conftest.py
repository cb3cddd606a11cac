"""Studios for the tests: one for all of them, or one of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.workflows.studio.served import FILES, Served, serving


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A studio with all of these files; shared by all tests."""
    folder = tmp_path_factory.mktemp("studio")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    references = ("guards.py:guard", "app.py:agent", "odd.py:odd_flow")
    with serving(folder, *references, seconds=20, text_limit=1024 * 1024, upload_limit=60 * 1024 * 1024) as made:
        yield made


@pytest.fixture(scope="session")
def serving_studio() -> Callable[..., contextlib.AbstractContextManager[Served]]:
    """Serve a studio of one's own."""
    return serving
