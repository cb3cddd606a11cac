"""A plain install, without any extra: all public names import, and the command line works.

`make core` runs this folder in an environment that has the core dependencies and pytest alone; in `make test` the
extras are there, and the same holds.
"""

import importlib
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
PACKAGES = [".".join(stub.parent.relative_to(SOURCE.parent).parts) for stub in sorted(SOURCE.rglob("__init__.pyi"))]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python on a module of ours."""
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package: str) -> None:
    """What needs an extra says so when it is made, not when it is imported."""
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.rest
def test_a_star_import_works() -> None:
    """As in a notebook."""
    done = run("-c", "from penstock import *; print(Workflow('w').then(UnicodeNormalizer()).check_sync('hi').text)")
    assert (done.stdout, done.stderr) == ("hi\n", "")


def test_help_works() -> None:
    """`help(penstock)` shows the public names."""
    assert "PIIDetector" in pydoc.render_doc(penstock)


@pytest.mark.rest
@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["list", "safety"],
        ["list", "PIIDetector"],
        ["draw", "hygiene"],
        ["validate", "safety"],
        ["run", "hygiene", "Write to ada@example.com"],
        ["run", "safety", "Hello there."],
    ],
    ids=" ".join,
)
def test_the_command_line_works(command: list[str]) -> None:
    """Presets and processors are listed, drawn and run with `python -m penstock`."""
    done = run("-m", "penstock", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_file_without_conditions_needs_no_extra(tmp_path: Path) -> None:
    """A condition does, and the error at its place names the extra."""
    import importlib.util

    from penstock.workflows.policies import PolicyError, load_policy

    path = tmp_path / "policy.yaml"
    path.write_text("penstock: 1\nsteps: [{use: privacy, with: {restore: true}}]\n")
    assert load_policy(path).check_sync("write to ann@example.com").text == "write to [EMAIL_1]"
    path.write_text("penstock: 1\nsteps: [{branch: [{when: text == '', steps: [hygiene]}]}, nobody]\n")
    with pytest.raises(PolicyError) as caught:
        load_policy(path)
    (problem, *others) = caught.value.problems
    if importlib.util.find_spec("cel_expr_python") is None:
        assert "penstock[policy]" in problem.message
        assert (problem.place.line, problem.place.column) == (2, 26)
        (problem,) = others
    assert problem.message.startswith("unknown processor nobody; ")
