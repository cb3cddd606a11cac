"""Whether what is built is what is in the repository: complete, typed, and claiming one top-level name."""

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest
from packaging.licenses import canonicalize_license_expression

ROOT = Path(__file__).parents[1]
LINKS = {"engine", "processors", "workflows"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an sdist, and from that sdist a wheel, without the network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])  # where uv-build is
    result = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture
def wheel(dist: Path) -> Iterator[ZipFile]:
    """Open the wheel that was built from the sdist."""
    with ZipFile(next(dist.glob("*.whl"))) as archive:
        yield archive


@pytest.fixture
def metadata(wheel: ZipFile) -> Message:
    """What the wheel says of itself."""
    return message_from_bytes(wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))))


def files_of_the_package() -> set[str]:
    """Every file under penstock/ that is not a by-product of running it."""
    files = (path for path in (ROOT / "penstock").rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_every_module_and_data_file_is_in_the_wheel(wheel: ZipFile) -> None:
    """Nothing under penstock/ is lost between the repository, the sdist and the wheel."""
    assert files_of_the_package() <= set(wheel.namelist())


def test_the_wheel_installs_one_top_level_name(wheel: ZipFile) -> None:
    """`workflows` is the import name of another distribution, whose files a second owner would overwrite."""
    names = {PurePosixPath(name).parts[0] for name in wheel.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"penstock"}


def test_the_licences_of_all_that_is_in_the_wheel_are_in_it(wheel: ZipFile, metadata: Message) -> None:
    """Those of files that others wrote, too; the expression is one that a package index takes."""
    expression = metadata["License-Expression"]
    assert canonicalize_license_expression(expression) == expression
    licences = {path.relative_to(ROOT).as_posix() for path in (ROOT / "penstock").rglob("LICENSE*")}
    assert {*metadata.get_all("License-File", [])} == {"LICENSE", "NOTICE", *licences}
    shipped = {name.partition(".dist-info/licenses/")[2] for name in wheel.namelist()}
    assert {"LICENSE", "NOTICE", *licences} <= shipped


@pytest.mark.parametrize("weights", sorted((ROOT / "penstock" / "detection" / "weights").glob("*.bin")))
def test_the_notice_names_each_source_of_the_weights(weights: Path) -> None:
    """With its licence, as the file itself states it in its first line."""
    with weights.open("rb") as file:
        sources = json.loads(file.readline())["sources"]
    notice = (ROOT / "NOTICE").read_text("utf-8")
    entries = {entry.partition(":")[0]: entry for entry in notice.split("\n    - ")[1:]}
    for source in sources:
        assert f"\n      {source['licence']}\n" in entries[source["set"]]
        assert weights.name in entries[source["set"]]


def test_the_metadata_names_no_address(metadata: Message) -> None:
    """There is none until the owner names one."""
    assert metadata.get_all("Project-URL") is None
    assert metadata["Home-page"] is None


def test_the_documentation_is_in_the_sdist(dist: Path) -> None:
    """With what builds it, and the pages beside the README."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    pages = {path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    assert pages | {"docs/build_site.py", "docs/pictures/diagram.png", "zensical.toml", "Makefile"} <= names


def test_the_links_are_not_in_the_sdist(dist: Path) -> None:
    """engine, processors and workflows at the top are for browsing, not for shipping."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        tops = {PurePosixPath(name).parts[1] for name in sdist.getnames() if "/" in name}
    assert "penstock" in tops
    assert not tops & LINKS


def test_the_links_lead_into_the_package() -> None:
    """The owner's three folders at the top are the ones that are installed."""
    assert {name: (ROOT / name).readlink() for name in LINKS} == {name: Path("penstock", name) for name in LINKS}


def test_the_console_script_is_installed(wheel: ZipFile) -> None:
    """The wheel declares the command `penstock`."""
    entry_points = ConfigParser()
    entry_points.read_string(wheel.read(next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))).decode())
    assert dict(entry_points["console_scripts"]) == {"penstock": "penstock.workflows.cli:main"}


def imported() -> set[str]:
    """Return the top-level names of all that the package imports, but for the standard library and itself."""
    names: set[str] = set()
    for path in (ROOT / "penstock").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"penstock"}


@pytest.mark.rest
def test_what_is_imported_is_declared() -> None:
    """What another library happens to bring may be gone with its next version, as sniffio was with anyio's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    development = {"test", "docs", "bench-peers", "quality-peers"}
    declared = [*project["dependencies"], *(one for name in {*extras} - development for one in extras[name])]
    names = {re.split(r"[^\w-]", one)[0].lower().replace("-", "_") for one in declared}
    part_of = {
        "agent_framework": "agent_framework_core",
        "agents": "openai_agents",
        "google": "google_adk",
        "haystack": "haystack_ai",
        "langchain_core": "langchain",
        "langgraph": "langchain",
        "openai": "openai_agents",
        "opentelemetry": "opentelemetry_api",
        "pydantic_core": "pydantic",
        "pydantic_ai": "pydantic_ai_slim",
        "referencing": "jsonschema",
        "yaml": "pyyaml",
    }
    running = {"trio"}  # imported only within an event loop that it runs itself
    assert {name for name in imported() - running if part_of.get(name, name) not in names} == set()
