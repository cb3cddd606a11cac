"""Skills in prompts: a list of them, and their instructions between marks that no text in them can close. Pure."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Literal

from penstock.processors.discovery.options import in_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.processors.discovery.skill import Skill

SkillFormat = Literal["xml", "json", "markdown"]

ELEMENT = "skill_instructions"

_MARK = re.compile(rf"[<＜﹤‹](?=[^\w<＜﹤‹>]*{ELEMENT})", re.IGNORECASE)


def catalogue(skills: Iterable[Skill], form: str, located: Callable[[Skill], str | None]) -> str:
    """Return a list of skills: name, description, location (where there is one), source.

    ``xml`` is escaped and ``markdown`` has one line a skill, so that a description ends where it ends.
    """
    entries = [_entry(skill, located(skill)) for skill in skills]
    if form == "json":
        return json.dumps({"available_skills": entries}, indent=2, ensure_ascii=False)
    if form == "markdown":
        return "\n".join(("Available skills:", *map(_line, entries)))
    inside = "\n".join(map(_element, entries))
    return f"<available_skills>\n{inside}\n</available_skills>"


def fenced(skill: Skill) -> str:
    """Return a skill's instructions in an element that they cannot close; nothing else in them is changed."""
    text = _MARK.sub("&lt;", skill.instructions)
    return f'<{ELEMENT} skill="{html.escape(skill.name)}">\n{text}\n</{ELEMENT}>'


def _entry(skill: Skill, location: str | None) -> dict[str, str]:
    entry = {"name": skill.name, "description": skill.description, "location": location, "source": skill.source}
    return {key: text for key, text in entry.items() if text is not None}


def _line(entry: dict[str, str]) -> str:
    told = {key: in_one_line(text, None) for key, text in entry.items()}
    behind = ", ".join(told[key] for key in ("location", "source") if key in told)
    return f"- **{told['name']}**: {told['description']} ({behind})"


def _element(entry: dict[str, str]) -> str:
    return "\n".join(_lines(entry))


def _lines(entry: dict[str, str]) -> Iterator[str]:
    yield "  <skill>"
    yield from (f"    <{key}>{html.escape(text, quote=False)}</{key}>" for key, text in entry.items())
    yield "  </skill>"
