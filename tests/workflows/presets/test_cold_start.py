"""What a process loads before its first verdict: nothing that no guard of `safety()` needs."""

import subprocess
import sys

import pytest

FIRST_VERDICT = (
    "import sys; from penstock.workflows.presets import safety; safety().check_sync('How do I cook pasta?'); "
    "print(' '.join(sys.modules))"
)


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules of a process that made `safety()` and asked for one verdict."""
    done = subprocess.run([sys.executable, "-c", FIRST_VERDICT], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["pydantic", "asyncio", "anyio", "httpx", "numpy", "importlib.metadata"])
def test_the_first_verdict_of_safety_loads_no_large_library(loaded: set[str], module: str) -> None:
    """Verdicts of judges need pydantic, and streams an event loop; a check without a model needs neither."""
    assert module not in loaded


def test_the_first_verdict_of_safety_loads_no_guard_that_is_not_in_it(loaded: set[str]) -> None:
    """The tables of languages are loaded only if languages are asked for."""
    assert not {name for name in loaded if name.startswith("penstock.") and "language" in name}
