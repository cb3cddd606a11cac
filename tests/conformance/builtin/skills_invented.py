"""Rows on skills as others may have been recorded; what the reference does is after its description."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from tests.conformance.builtin.frame import Fields, Given, Row

SKILLS: list[Fields] = [
    {"name": "testing", "description": "Write tests & run them", "path": "/sk/test", "instructions": "Do."},
    {"name": "api-design", "description": "Design <APIs>", "path": "/sk/api", "instructions": "Do."},
    {"name": "api-design", "description": "The same again", "path": "/sk/api", "instructions": "Do."},
]
META = ["mine", "search_skills", "load_skill"]
LISTED = [
    {
        "name": skill["name"],
        "description": skill["description"],
        "location": f"{skill['path']}/SKILL.md",
        "source": "local",
    }
    for skill in (SKILLS[1], SKILLS[0])
]


def listed(name: str, options: Fields, skills: list[Fields], text: str | None) -> Row:
    """Return a row about the list of skills."""
    given = {"method": "process_input_step", "skills": skills}
    count = 0 if text is None else 2
    form = None if text is None else options["format"]
    expected = {"system_message_count": count, "catalog": text, "usage_note_present": text is not None, "form": form}
    return Row("skills", name, Given(options, given), expected)


def held(options: Fields) -> Row:
    """Return a row of the list alone that was recorded as its entries."""
    given = {"method": "format_catalog", "skills": SKILLS}
    return Row("skills", "entries", Given(options, given), {"entries": LISTED, "form": options["format"]})


def asked(name: str, options: Fields, skill: str, result: Fields) -> Row:
    """Return a row in which a skill is asked for."""
    calls = [{"tool": "load_skill", "args": {"skillName": skill}}]
    given = {"method": "process_input_step", "skills": SKILLS, "calls": calls, "search_results": []}
    steps = [{"visible_tools": META, "skill_messages": [], "result": result}]
    return Row("skills", name, Given(options, given), {"steps": steps})


def rows(complete: Callable[[Fields], Fields]) -> Sequence[Row]:
    """Return the rows."""
    told = (
        "- **api-design** [local]: Design <APIs>\n  `/sk/api/SKILL.md`\n- **testing** [local]: Write tests & run them\n"
    )
    lost = {"success": False, "message": 'Skill "tesing" not found. Use search_skills to find available skills.'}
    return [
        listed("as JSON", complete({"format": "json"}), SKILLS, json.dumps({"skills": LISTED})),
        listed("as Markdown", complete({"format": "markdown"}), SKILLS, f"# Skills\n\n{told}  `/sk/test/SKILL.md`"),
        *(held(complete({"format": form})) for form in ("xml", "json", "markdown")),
        listed("no skills", complete({}), [], None),
        asked("a misspelt name", complete({}), "tesing", lost),
    ]
