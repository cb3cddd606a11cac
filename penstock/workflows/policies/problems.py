"""The problems of a policy file: each with its file, line and column, and all of them in one error."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.errors import DefinitionError
from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.workflows.policies.files import FileState


@dataclass(frozen=True, slots=True, order=True)
class FilePlace:
    """Where something stands in a policy file.

    Attributes:
        file: the path of the file as it was given, or the name of the text.
        line: the line, from 1.
        column: the column, from 1.
    """

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        """Show it as compilers do, so that editors and terminals make a link of it."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class PolicyProblem:
    """One fault of a policy file.

    Attributes:
        place: where it is.
        message: the fault and its cure.
    """

    place: FilePlace
    message: str

    def __str__(self) -> str:
        """Show the place and the message in one line."""
        return f"{self.place}: {self.message}"


class PolicyError(DefinitionError):
    """A policy file is malformed. The error lists all problems of the file, and of the files that it includes.

    Attributes:
        problems: the problems, by file, line and column.
        files: the files that were read, or tried, each with its state when it was read.
        profiles: the names of the profiles that were not read, and which may have problems of their own.
    """

    def __init__(
        self,
        problems: Iterable[PolicyProblem],
        files: Mapping[str, FileState | None] = EMPTY,
        profiles: tuple[str, ...] = (),
    ) -> None:
        self.problems: tuple[PolicyProblem, ...] = tuple(sorted(set(problems)))
        self.files = files
        self.profiles = profiles
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[PolicyError], tuple[tuple[PolicyProblem, ...]]]:
        """Pickle the problems."""
        return (type(self), (self.problems,))


class StopReadingError(Exception):
    """Reading cannot go on; the reason is among the problems."""


class Problems:
    """Collects the problems of files while they are read, so that all of them are told at once.

    Attributes:
        found: the problems so far.
        faulty: the places of values that could not be filled in; follow-up faults of them are not told.
    """

    most = 100
    """After so many, reading ends."""

    def __init__(self) -> None:
        self.found: list[PolicyProblem] = []
        self.faulty: set[FilePlace] = set()

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.found)

    def add(self, place: FilePlace, message: str) -> None:
        """Add a problem.

        Raises:
            StopReadingError: there are so many that nobody would read further ones.
        """
        self.found.append(PolicyProblem(place, message))
        if len(self.found) >= self.most:
            raise StopReadingError


def suggestion(given: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests one of the known names, or lists them if none is close."""
    names = sorted(known)
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(given.lower().replace("_", "-"), by_lower, n=1) or difflib.get_close_matches(
        given.lower(), by_lower, n=1
    )
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    return f"use one of {', '.join(names)}" if names else "there are none"
