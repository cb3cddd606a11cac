"""Runs the suite in each framework, in an environment of its own, since their pins fight: ``make hosts``.

Each framework is run in its newest release, and in the lowest that its extra in pyproject.toml allows. What held is
written to results.json beside this file, and from there into docs/hosts.md. This script needs no package.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal, get_args

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".venv-hosts"
RESULTS = HERE / "results.json"
DRIVERS = HERE / "drivers"

Release = Literal["lowest", "newest"]
RELEASES: tuple[Release, ...] = get_args(Release)

TOOLS = ("anyio", "hypothesis", "pytest", "pytest-randomly", "pytest-timeout")
"""What the tests need beside the framework; the versions are those of the extra ``test``."""

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<extras>\[[^]]*\])?\s*(?P<bounds>[^;]*)")
LOWEST = re.compile(r">=\s*([\w.]+)")


@dataclass(frozen=True)
class Framework:
    """A framework that has a driver.

    Attributes:
        driver: the module of its driver.
        extra: the extra of penstock that installs it.
        requires: further requirements of its driver.
    """

    driver: str
    extra: str
    requires: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Framework:
        """Read it from its driver, which is not imported: its framework is not installed here."""
        names: dict[str, object] = {}
        for node in ast.parse(path.read_text("utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(target, ast.Name) and target.id in ("EXTRA", "REQUIRES"):
                names[target.id] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
        requires = names.get("REQUIRES", ())
        assert isinstance(requires, Sequence)
        assert not isinstance(requires, str), f"{path.name}: REQUIRES is a list of requirements"
        return cls(path.stem, str(names.get("EXTRA", path.stem.replace("_", "-"))), tuple(requires))


def frameworks() -> list[Framework]:
    """Return all that have a driver."""
    return [Framework.of(path) for path in sorted(DRIVERS.glob("[a-z]*.py"))]


def extras() -> Mapping[str, Sequence[str]]:
    """Return the extras of pyproject.toml."""
    found: Mapping[str, Sequence[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    return found


def lowest_of(requirements: Sequence[str]) -> list[str]:
    """Return requirements for exactly the lower bound of each of these.

    Raises:
        ValueError: one has no lower bound.
    """
    made: list[str] = []
    for requirement in requirements:
        match = REQUIREMENT.match(requirement)
        bound = None if match is None else LOWEST.search(match["bounds"])
        if match is None or bound is None:
            raise ValueError(f"{requirement!r} has no lower bound; write it with >=")
        made.append(f"{match['name']}=={bound[1]}")
    return made


@dataclass(frozen=True)
class Environment:
    """One release of a framework, installed by itself."""

    framework: Framework
    release: Release

    @property
    def path(self) -> Path:
        """Where it is."""
        return ENVIRONMENTS / f"{self.framework.driver}-{self.release}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def wanted(self) -> list[str]:
        """What pip is to install; the editable package comes first."""
        given = extras()
        tools = [each for each in given["test"] if (match := REQUIREMENT.match(each)) and match["name"] in TOOLS]
        own = given[self.framework.extra]
        bounds = lowest_of(own) if self.release == "lowest" else []
        return ["--editable", f"{ROOT}[{self.framework.extra}]", *self.framework.requires, *tools, *bounds]

    def install(self, *, fresh: bool) -> None:
        """Install it, unless it is installed and nothing that decides about it has changed.

        Raises:
            CalledProcessError: pip failed.
        """
        stamp, wanted = self.path / ".hosts", "\n".join([sys.version, *self.wanted])
        if not fresh and stamp.exists() and stamp.read_text("utf-8") == wanted and self.python.exists():
            return
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.path)], check=True)
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.wanted]
        subprocess.run(pip, check=True, cwd=ROOT, env=clean_environment())
        stamp.write_text(wanted, "utf-8")

    def run(self, words: str | None) -> bool:
        """Run the suite and the tests of the adapter, or those with some words; return whether all held.

        Only a whole run is written to the results: pytest ends one with 0 or 1, one that it could not begin otherwise.
        """
        name = self.framework.driver
        results = self.path / "results.json"
        results.unlink(missing_ok=True)
        others = {other.driver for other in frameworks() if other.driver.startswith(f"{name}_")}
        own = sorted((ROOT / "tests" / "workflows" / "adapters").glob(f"test_{name}*.py"))
        own = [path for path in own if not any(path.stem.startswith(f"test_{other}") for other in others)]
        tests = ["tests/hosts/test_suite.py", *map(str, own)]
        options = ["-q", "--no-header", "-p", "no:cacheprovider", "--host", name, "--host-results", str(results)]
        warnings = ["-W", "default", "--disable-warnings"]  # an old framework may use what a new Python warns of
        command = [str(self.python), "-m", "pytest", *options, *warnings, *tests]
        if words is not None:
            command += ["-k", words]
        ended = subprocess.run(command, check=False, cwd=ROOT, env=clean_environment())
        if words is None and ended.returncode in (0, 1) and results.exists():
            keep(name, self.release, json.loads(results.read_text("utf-8")))
        return ended.returncode == 0


def clean_environment() -> dict[str, str]:
    """Return the variables of this process without those that would lead to other packages."""
    return {name: said for name, said in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def keep(driver: str, release: Release, made: Mapping[str, object]) -> None:
    """Write what held in a framework to the results; what is there of others, and of its other release, stays."""
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    known = {framework.driver for framework in frameworks()}
    kept = {name: each for name, each in kept.items() if name in known}
    kept[driver] = {**kept.get(driver, {}), release: made}
    kept = {name: dict(sorted(kept[name].items(), reverse=True)) for name in sorted(kept)}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, all by default; return 1 if anything failed."""
    known = {framework.driver: framework for framework in frameworks()}
    parser = argparse.ArgumentParser(prog="make hosts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"frameworks: {', '.join(known)}; default: all")
    parser.add_argument("--newest", action="append_const", dest="releases", const="newest", help="the newest release")
    parser.add_argument("--lowest", action="append_const", dest="releases", const="lowest", help="the lowest release")
    parser.add_argument("--fresh", action="store_true", help="install again, for releases that have come since")
    parser.add_argument("-k", metavar="WORDS", help="only tests with these words, as for pytest")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name.replace("-", "_") not in known]
    if unknown:
        parser.error(f"no driver for {', '.join(unknown)}; there are {', '.join(known)}")
    wanted = [known[name.replace("-", "_")] for name in given.names] or list(known.values())
    ended: dict[str, str] = {}
    for framework in wanted:
        for release in given.releases or RELEASES:
            environment = Environment(framework, release)
            began = monotonic()
            print(f"\n=== {framework.driver}, {release} release", flush=True)
            said = outcome(environment, fresh=given.fresh, words=given.k)
            ended[f"{framework.driver} {release}"] = f"{said} ({monotonic() - began:.0f} s)"
    written = given.k is not None or write_tables(environment)
    print("\n=== the suite in other frameworks")
    for name, said in ended.items():
        print(f"{name:28} {said}")
    return 0 if written and all(said.startswith("passed") for said in ended.values()) else 1


def write_tables(environment: Environment) -> bool:
    """Write the results into the documentation, with an environment that has Penstock; return whether that worked."""
    if not environment.python.exists():
        return False
    command = [str(environment.python), "-m", "tests.hosts.table"]
    return subprocess.run(command, check=False, cwd=ROOT, env=clean_environment()).returncode == 0


def outcome(environment: Environment, *, fresh: bool, words: str | None) -> str:
    """Install and run one environment, and say how it ended."""
    try:
        environment.install(fresh=fresh)
    except subprocess.CalledProcessError:
        return f"NOT INSTALLED: pip install {' '.join(environment.wanted)} failed"
    return "passed" if environment.run(words) else "FAILED"


if __name__ == "__main__":
    sys.exit(main())
