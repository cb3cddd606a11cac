"""`load_policy` and `parse_policy`: a policy file as a workflow."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.graph.builder import is_name
from penstock.engine.graph.checks import id_problems, problems as graph_problems
from penstock.engine.graph.nodes import Sequence, resolve, too_deep, walk
from penstock.engine.workflow import Workflow
from penstock.workflows.policies.environment import with_environment
from penstock.workflows.policies.fields import list_of, mapping_of, text_of
from penstock.workflows.policies.files import SUFFIXES, FileState, is_policy_file
from penstock.workflows.policies.problems import FilePlace, PolicyError, Problems, StopReadingError
from penstock.workflows.policies.profiles import changes_of, profile_names, step_ids, with_profile
from penstock.workflows.policies.row_tests import PolicyTest, check_steps_of_tests, step_names, tests_of
from penstock.workflows.policies.steps import MOST_STEPS, StepReader
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode, read_nodes, text_of_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.workflows.policies.yaml_nodes import PolicyNode

VERSION = 1
"""The version of the format: what the first key of a file, ``penstock:``, must be."""

KEYS = ("penstock", "name", "description", "include", "profiles", "steps", "tests")
"""The keys of a policy file."""

MOST_FILES = 100
"""How many files may be included and used, each as often as it is."""

PROFILE_VARIABLE = "PENSTOCK_PROFILE"
"""The variable of the environment that chooses the profile."""


@dataclass(frozen=True)
class PolicyDocument:
    """A policy file that was read.

    Attributes:
        workflow: the workflow.
        description: its description; empty if it has none.
        profiles: the names of its profiles.
        profile: the one that the workflow has; None: the file as it is without any.
        tests: its tests.
        files: the files that it was made of, itself and those that it includes and uses, each with its state when it
            was read; None if it could not be read.
    """

    workflow: Workflow
    description: str = ""
    profiles: tuple[str, ...] = ()
    profile: str | None = None
    tests: tuple[PolicyTest, ...] = ()
    files: Mapping[str, FileState | None] = field(default_factory=dict[str, "FileState | None"])


def load_policy(
    path: str | os.PathLike[str], *, profile: str | None = None, environment: Mapping[str, str] | None = None
) -> Workflow:
    """Return the workflow of a policy file.

    Args:
        path: the file, YAML (``.yaml``, ``.yml``) or JSON (``.json``).
        profile: the name of one of its profiles. None: the one that the environment variable ``PENSTOCK_PROFILE``
            names, if it is set.
        environment: the variables for ``${NAME}``. None: those of the process.

    Raises:
        PolicyError: the file cannot be read or has problems: all of them, each with its line and column.
    """
    return read_policy(path, profile=profile, environment=environment).workflow


def read_policy(
    path: str | os.PathLike[str], *, profile: str | None = None, environment: Mapping[str, str] | None = None
) -> PolicyDocument:
    """Return a policy file with its tests and profiles; see `load_policy`.

    Raises:
        PolicyError: the file cannot be read or has problems.
    """
    name = os.fspath(path)
    reading = _PolicyReading(os.environ if environment is None else environment, profile)
    text = text_of_file(name, FilePlace(name), reading.problems, reading.files)
    return reading.policy(text, name)


def parse_policy(
    text: str, *, file: str = "policy.yaml", profile: str | None = None, environment: Mapping[str, str] | None = None
) -> Workflow:
    """Return the workflow of the text of a policy file.

    Args:
        text: the text.
        file: its name: for places in errors, as the base of other files that it names, and for its form, JSON if it
            ends with ``.json``.
        profile: as for `load_policy`.
        environment: as for `load_policy`.

    Raises:
        PolicyError: the text has problems.
    """
    return _PolicyReading(os.environ if environment is None else environment, profile).policy(text, file).workflow


@dataclass
class _PolicyReading:
    """Reads a file and those that it names. Lives as long as that takes."""

    environment: Mapping[str, str]
    profile: str | None
    problems: Problems = field(default_factory=Problems)
    files: dict[str, FileState | None] = field(default_factory=dict[str, "FileState | None"])
    steps_left: Iterator[int] = field(default_factory=lambda: iter(range(MOST_STEPS)))
    files_left: Iterator[int] = field(default_factory=lambda: iter(range(MOST_FILES)))
    unread: tuple[str, ...] = ()  # the profiles of the file, if none is chosen
    opened: list[str] = field(default_factory=list[str])  # the real paths of the files that are being read now

    def policy(self, text: str | None, file: str) -> PolicyDocument:
        try:
            found = None if text is None else self._document(text, file)
        except StopReadingError:
            found = None
        if found is None or len(self.problems):
            raise PolicyError(self.problems.found, self.files, self.unread)
        return found

    def _document(self, text: str, file: str) -> PolicyDocument | None:
        root = self._root(text, file)
        if root is None:
            return None
        names = profile_names(root, self.problems)
        all_ids = step_ids(root.get("steps"))  # also those that a profile leaves out
        chosen = self._chosen_profile()
        self.unread = () if chosen is not None else names
        for name in names:
            if name != chosen:
                changes_of(root, name, self.problems)
        if chosen is not None and (self.profile is not None or names):
            root = with_profile(root, chosen, self.problems)
        self.opened.append(os.path.realpath(file))
        workflow, reader = self._workflow(root, file)
        tests = tests_of(root.get("tests"), names, self.problems)
        description = text_of(root.get("description"), "description", self.problems) or ""
        self._check_graph(workflow, reader, root)
        if not reader.unknown_ids:
            check_steps_of_tests(root.get("tests"), {*step_names(workflow), *all_ids}, self.problems)
        return PolicyDocument(workflow, description, names, chosen if names else None, tests, self.files)

    def _chosen_profile(self) -> str | None:
        return self.profile or self.environment.get(PROFILE_VARIABLE) or None

    def _root(self, text: str, file: str) -> MappingNode | None:
        node = read_nodes(text, file, self.problems)
        if node is None:
            return None
        if not isinstance(node, MappingNode) or "penstock" not in node.entries:
            self.problems.add(node.place, "this is no policy file; its first line is `penstock: 1`")
            return None
        self._check_version(node)
        filled = with_environment(node, self.environment, self.problems)
        root = mapping_of(filled, "a policy file", KEYS, self.problems)
        return root if root is None else self._with_includes(root, file)

    def _check_version(self, node: MappingNode) -> None:
        version = node.get("penstock")
        if next(iter(node.entries)) != "penstock":
            self.problems.add(node.key_place("penstock"), "penstock: must be the first key of the file")
        if not isinstance(version, ScalarNode) or version.value is True or version.value != VERSION:
            given = version.text if isinstance(version, ScalarNode) else "a list or a mapping"
            self.problems.add(node.key_place("penstock"), f"the version is {given}; this Penstock reads `penstock: 1`")

    def _with_includes(self, root: MappingNode, file: str) -> MappingNode:
        """Return a file with the steps of those that it includes before its own."""
        included: list[PolicyNode] = []
        for node in list_of(root.get("include"), "include", self.problems):
            name = text_of(node, "include", self.problems)
            other = None if name is None else self._other(name, file, node.place)
            if other is not None:
                included += list_of(other.get("steps"), "steps", self.problems)
        if not included:
            return root
        key, own = root.entries.get("steps", (ScalarNode(root.place, "steps"), ListNode(root.place)))
        steps = ListNode(own.place, (*included, *list_of(own, "steps", self.problems)))
        return replace(root, entries={**root.entries, "steps": (key, steps)})

    def _other(self, name: str, file: str, place: FilePlace) -> MappingNode | None:
        """Return another file that one names, by its path from there; None if it cannot be read, which is told."""
        path = str(Path(file).parent / name)
        real = os.path.realpath(path)
        if real in self.opened:
            self.problems.add(place, f"{name} is being read already: the files name each other in a circle")
            return None
        if not is_policy_file(path):
            self.problems.add(place, f"{name} is no policy file; its name must end with {', '.join(SUFFIXES)}")
            return None
        if next(self.files_left, None) is None:
            self.problems.add(place, f"more than {MOST_FILES} files are included and used; make them fewer")
            raise StopReadingError
        text = text_of_file(path, place, self.problems, self.files)
        if text is None:
            return None
        self.opened.append(real)
        root = self._root(text, path)
        self.opened.pop()
        return root

    def _workflow(self, root: MappingNode, file: str) -> tuple[Workflow, StepReader]:
        name = text_of(root.get("name"), "name", self.problems) or Path(file).stem.partition(".")[0] or "policy"
        if not is_name(name):
            self.problems.add(root.key_place("name"), "a name must be a text without '/'")
            name = "policy"
        reader = StepReader(self.problems, self._nested, self.steps_left)
        if "steps" not in root.entries:
            self.problems.add(root.place, "a policy file needs steps:")
        nodes = reader.steps(root.get("steps"))
        return Workflow(name, Sequence(nodes)), reader

    def _nested(self, use: ScalarNode) -> Workflow | None:
        """Return the workflow of another file, which a step names."""
        root = self._other(use.text, use.place.file, use.place)
        if root is None:
            return None
        file = str(Path(use.place.file).parent / use.text)
        self.opened.append(os.path.realpath(file))
        chosen = self._chosen_profile()
        if chosen is not None and chosen in profile_names(root, self.problems):
            root = with_profile(root, chosen, self.problems)
        workflow, _ = self._workflow(root, file)
        self.opened.pop()
        return workflow

    def _check_graph(self, workflow: Workflow, reader: StepReader, root: MappingNode) -> None:
        """Add the problems of the graph as a whole, each at the step that it names.

        If the file has other problems, only ids are checked: what steps do that cannot be read is not known.
        """
        places, whole = reader.places, not len(self.problems)
        if too_deep(workflow.root):
            self.problems.add(root.key_place("steps"), str(too_deep(workflow.root)))
            return
        of_path = {
            resolved.path: places.get(id(given))
            for given, resolved in zip(walk(workflow.root), walk(resolve(workflow.root)), strict=True)
        }
        for problem in graph_problems(workflow.root) if whole else id_problems(workflow.root):
            named = [part for part in problem.split("'")[1::2] if of_path.get(part)]
            place = of_path[named[0]] if named else None
            second = of_path.get(f"{named[0]}#2") if named and "steps have the id" in problem else None
            if second is not None and place is not None:
                problem = f"{problem}; the first stands in line {place.line}"  # noqa: PLW2901 - the second is to blame
            self.problems.add(second or place or root.key_place("steps"), problem)
