"""What `make hosts` stands on: the requirements that it installs, the plugin that it runs with, and its tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hosts import cases, table
from tests.hosts.environments import Environment, Framework, extras, frameworks, lowest_of, main
from tests.hosts.plugin import LACKS, LEFT

ROOT = Path(__file__).parents[2]
WAYS = {"whole", "streamed"}


def made(**cases: dict[str, str]) -> dict[str, Any]:
    """Return the results of one release."""
    stages = {"one.guard": {"stages": ["process_input"], "retries": False}}
    named = {name.replace("_", " "): ways for name, ways in cases.items()}
    return {"name": "One", "package": "one", "version": "1.0", "python": "3.11", "stages": stages, "cases": named}


def test_each_framework_has_an_extra_whose_lowest_release_is_known() -> None:
    """It is read from pyproject.toml, where users read it, too."""
    known = extras()
    for framework in frameworks():
        assert lowest_of(known[framework.extra]), framework


ALONE = {"litellm"}
"""The extras that are not in ``test``, since their pins fight with those of the others: `make hosts` installs them."""


def test_the_tests_install_what_the_extras_allow() -> None:
    """The extra ``test`` begins at the same release, so that both are the one that was tried."""
    tested = set(lowest_of(extras()["test"]))
    for framework in frameworks():
        if framework.extra in ALONE:
            assert not set(lowest_of(extras()[framework.extra])) & tested
            continue
        assert set(lowest_of(extras()[framework.extra])) <= tested, framework


def test_the_lowest_release_is_pinned() -> None:
    """To exactly the lower bound, without the extras of the distribution, which pip has by then."""
    assert lowest_of(["a>=1.2", "b-c[d] >= 2 , <3; sys_platform == 'linux'"]) == ["a==1.2", "b-c==2"]
    with pytest.raises(ValueError, match="no lower bound"):
        lowest_of(["a<3"])


def test_a_driver_is_read_without_its_framework(tmp_path: Path) -> None:
    """Nothing of it is imported."""
    path = tmp_path / "some_thing.py"
    path.write_text("import nowhere\nNAME = 'x'\n")
    assert Framework.of(path) == Framework("some_thing", "some-thing", ())
    path.write_text("EXTRA = 'thing'\nREQUIRES: tuple[str, ...] = ('thing[proxy]',)\n")
    assert Framework.of(path) == Framework("some_thing", "thing", ("thing[proxy]",))


def test_an_environment_asks_for_the_extra_and_the_tools() -> None:
    """The lowest one for the bounds, too."""
    framework = Framework("pydantic_ai", "pydantic-ai", ("more>=1",))
    newest, lowest = (Environment(framework, release).wanted for release in ("newest", "lowest"))
    assert newest[:3] == ["--editable", f"{ROOT}[pydantic-ai]", "more>=1"]
    assert any(each.startswith("pytest>=") for each in newest)
    assert lowest == [*newest, *lowest_of(extras()["pydantic-ai"])]


def test_a_framework_without_a_driver_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is installed."""
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no driver for nothing; there are" in capsys.readouterr().err


def test_the_page_shows_the_results() -> None:
    """Run `make hosts`, or `python -m tests.hosts.table` if only the page is behind."""
    page = table.PAGE.read_text("utf-8")
    assert table.filled(page, table.tables(table.read())) == page


def test_the_results_are_of_every_framework_and_every_case() -> None:
    """In both releases, and nothing failed; run `make hosts`."""
    results = table.read()
    assert list(results) == [framework.driver for framework in frameworks()]
    for name, ran in results.items():
        assert set(ran) == {"newest", "lowest"}, name
        for release, each in ran.items():
            assert set(each["cases"]) == set(cases.CASES), f"{name} {release}"
            for case, ways in each["cases"].items():
                assert set(ways) == WAYS, f"{name} {release}, {case}"
                assert all(said == "yes" or said.startswith(LACKS) for said in ways.values()), f"{name}, {case}"


def test_every_framework_has_its_pages() -> None:
    """And the overview leads to both."""
    page = table.PAGE.read_text("utf-8")
    for framework in frameworks():
        own = framework.extra
        assert f"(hosts/{own}.md" in page
        assert f"(hosts/coming-from-{own}.md)" in page or framework.driver == "mcp"


@pytest.mark.parametrize(
    ("lowest", "newest", "said"),
    [
        (("yes", "yes"), ("yes", "yes"), "yes"),
        (("yes", "no"), ("yes", "yes"), "**no** (lowest streamed)"),
        ((f"{LACKS}why",) * 2, (f"{LACKS}why",) * 2, "not offered"),
        (("yes", f"{LACKS}why"), ("yes", f"{LACKS}why"), "yes; not offered streamed"),
        ((f"{LACKS}why", f"{LACKS}why"), ("no", "yes"), "**no** (newest whole)"),
    ],
)
def test_a_cell_hides_no_failure(lowest: tuple[str, str], newest: tuple[str, str], said: str) -> None:
    """Whichever release and way it was in."""
    ran = {
        release: made(one_case={"whole": ways[0], "streamed": ways[1]})
        for release, ways in (("newest", newest), ("lowest", lowest))
    }
    assert table.cell(ran, "one case") == said
    assert table.cell(ran, "another") == "not run"


def test_reasons_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once if both ways lack it for the same reason."""
    monkeypatch.setattr(cases, "CASES", {"both": None, "one": None, "none": None})
    held = made(
        both={"whole": f"{LACKS}no place", "streamed": f"{LACKS}no place"},
        one={"whole": "yes", "streamed": f"{LACKS}no stream"},
        none={"whole": "yes", "streamed": "yes"},
    )
    assert table.notes({"one": {"newest": held}}).splitlines() == [
        "- One, *both*: no place",
        "- One, *one*, streamed: no stream",
    ]
    assert table.notes({"one": {"newest": made(none={"whole": "yes"})}}) == "Each framework offers each case."


def test_a_page_without_a_place_is_an_error() -> None:
    """Or a table would be missing without a word."""
    with pytest.raises(ValueError, match="no place for 'cases'"):
        table.filled("# Page", {"cases": "| a |"})


def pytest_in(folder: Path, *arguments: str) -> str:
    """Run pytest on a suite of two frameworks, of which one is not installed, and return what it printed."""
    suite = folder / "test_suite.py"
    suite.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('name', ['here', 'elsewhere'])\n"
        "def test_it(name):\n"
        f"    if name == 'elsewhere': pytest.skip('{LEFT}elsewhere: No module named x')\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.hosts.plugin", "-p", "no:cacheprovider", *arguments]
    ran = subprocess.run([*command, str(suite)], check=False, cwd=ROOT, capture_output=True, text=True)
    return ran.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.rest
def test_frameworks_that_were_left_out_are_named_at_the_end(tmp_path: Path, workers: str) -> None:
    """A skip is easily overlooked; also with several workers."""
    printed = pytest_in(tmp_path, "-n", workers)
    assert "frameworks left out" in printed
    assert "elsewhere: No module named x" in printed
    assert "did not run in 1 of the frameworks; `make hosts` runs it in all" in printed


@pytest.mark.rest
def test_the_suite_of_one_framework_writes_its_results(tmp_path: Path) -> None:
    """As `make hosts` runs it."""
    path = tmp_path / "results.json"
    options = [
        "--host",
        "pydantic_ai",
        "--host-results",
        str(path),
        "-p",
        "no:cacheprovider",
        "-k",
        "input and blocked",
    ]
    command = [sys.executable, "-m", "pytest", *options, "tests/hosts/test_suite.py"]
    ran = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    written = json.loads(path.read_text("utf-8"))
    assert (written["name"], written["package"]) == ("pydantic-ai", "pydantic-ai-slim")
    assert written["cases"]["input blocked"] == {"whole": "yes", "streamed": "yes"}
    assert "process_output_stream" in written["stages"]["pydantic_ai.as_capability"]["stages"]


@pytest.mark.rest
def test_a_framework_that_cannot_be_imported_is_an_error_if_it_is_asked_for() -> None:
    """Its tests would all be skipped, and `make hosts` would pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--host",
        "nowhere",
        "-p",
        "no:cacheprovider",
        "tests/hosts/test_suite.py",
    ]
    ran = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "the suite cannot run in nowhere: No module named 'tests.hosts.drivers.nowhere'" in ran.stderr
