"""What is better on purpose of the processors of skills. No processor is known here."""

from __future__ import annotations

import difflib

from tests.conformance.builtin.frame import Fields


def near(meant: str, names: list[str]) -> list[str]:
    """Return the names that hold what was said or are held by it, else those that are spelt alike; three at most."""
    said = meant.strip().lower()
    held = [name for name in names if said and (said in name.lower() or name.lower() in said)]
    return (held or difflib.get_close_matches(meant, names, n=3, cutoff=0.75))[:3]


def a_misspelt_name_is_recognised(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Who asks for a skill that is not there is told what is spelt alike, not only what the name is part of."""
    if "calls" not in given:
        return None
    names, steps = sorted(skill["name"] for skill in given["skills"]), list[Fields]()
    for call, step in zip(given["calls"], expected["steps"], strict=True):
        asked = (call or {}).get("args", {}).get("skillName", "")
        if step.get("result", {}).get("success") is False and (found := near(asked, names)):
            step = {**step, "result": {"success": False, "message": f"Did you mean: {', '.join(found)}?"}}  # noqa: PLW2901
        steps.append(step)
    return {"steps": steps}


RULES = (a_misspelt_name_is_recognised,)
