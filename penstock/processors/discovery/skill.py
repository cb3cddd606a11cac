"""`Skill`: what a model can be taught when it asks for it, and how it is read from a file. It knows no processor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.detection.unicode.normalizing import Profile, normalize
from penstock.engine.values.errors import DefinitionError, OptionError
from penstock.processors.discovery._front_matter import FrontMatterError, front_matter

if TYPE_CHECKING:
    from os import PathLike

FILE = "SKILL.md"
"""What the file of a skill is called, in a folder of its own (agentskills.io)."""

LONGEST_NAME = 64
"""Characters (agentskills.io)."""

LONGEST_PATH = 4096
"""Characters: Linux's own limit."""

LARGEST_FILE = 256 * 1024
"""Bytes: instructions are for a model's prompt, so what is larger is something else."""

_UNSEEN = Profile(form="keep")  # whoever read the file did not see it, so it is not told to models


@dataclass(frozen=True, slots=True)
class Skill:
    """Something that a model can be taught.

    Attributes:
        name: what it is called: one line of at most `LONGEST_NAME` characters.
        description: what it does, and when it is of use; the model chooses by it.
        instructions: what the model is told once it has chosen it.
        path: the folder it stands in, if it stands in one.
        source: where it comes from, in a word: ``local``, ``managed`` …

    Raises:
        OptionError: it has no name or no description, or a field is of the wrong kind.
    """

    name: str
    description: str
    instructions: str = field(default="", repr=False)
    path: str | None = None
    source: str = "local"

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_line("name", self.name, LONGEST_NAME)
        _check_line("source", self.source, LONGEST_NAME)
        _check_text("description", self.description, least=1)
        _check_text("instructions", self.instructions, least=0)
        if self.path is not None:
            _check_line("path", self.path, LONGEST_PATH)

    @property
    def location(self) -> str | None:
        """The path of its file, if it stands in one."""
        return None if self.path is None else f"{self.path.rstrip('/')}/{FILE}"

    @property
    def key(self) -> str:
        """What tells it from others: where it stands; of one that stands nowhere its name."""
        return self.path if self.path is not None else self.name

    @classmethod
    def read(cls, path: str | PathLike[str], *, source: str = "local") -> Skill:
        """Return the skill of a folder, or of its file: front matter with ``name`` and ``description``, then Markdown.

        Characters that nobody sees are left out. This reads the disk: not for the event loop.

        Raises:
            DefinitionError: the file cannot be read, or is no skill; the message names it and says what is wrong.
        """
        file = Path(path)
        file = file / FILE if file.name != FILE else file
        try:
            return _parsed(file, _content(file), source)
        except (OSError, UnicodeDecodeError) as error:
            raise DefinitionError(f"{file}: it cannot be read: {type(error).__name__}") from error
        except (FrontMatterError, OptionError) as error:
            raise DefinitionError(f"{file}: {error}") from error


def _check_line(option: str, given: object, longest: int) -> None:
    if not isinstance(given, str) or not given.strip() or len(given) > longest or not given.isprintable():
        raise OptionError("Skill", option, given, f"one line of 1 to {longest} characters")


def _check_text(option: str, given: object, *, least: int) -> None:
    if not isinstance(given, str) or len(given.strip()) < least:
        raise OptionError("Skill", option, type(given).__name__, "a str" if not least else "a str that is not blank")


def _content(file: Path) -> str:
    with file.open("rb") as opened:
        content = opened.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise FrontMatterError(f"it is larger than {LARGEST_FILE} bytes; move the details to files of their own")
    return content.decode("utf-8")


def _parsed(file: Path, text: str, source: str) -> Skill:
    keys, body = front_matter(normalize(text, _UNSEEN).text, ("name", "description"))
    for key in ("name", "description"):
        if not keys.get(key):
            raise FrontMatterError(f"its front matter has no {key!r}")
    return Skill(keys["name"], keys["description"], body, file.parent.as_posix(), source)
