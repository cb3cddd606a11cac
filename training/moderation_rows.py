"""What the moderation model learns from: which rows, and what they say about which category.

A row whose set does not tell whether a category applies is no example for it: what is not said is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.moderation import ANY, CATEGORIES
from training.clusters import clusters
from training.rows import Row, own_file, own_lines, own_source, read, source

if TYPE_CHECKING:
    from pathlib import Path

OPENAI, HATECHECK, DAVIDSON, SURGE = "mod_openai", "mod_hatecheck", "mod_davidson", "mod_surge_toxicity"
XSTEST, AILUMINATE, SIMPLE = "mod_xstest", "mod_ailuminate_demo", "mod_simplesafetytests"
BENIGN = ("ben_user_prompts", "ben_act_as", "inj_notinject", "inj_wildguard_benign")
SETS = (OPENAI, HATECHECK, DAVIDSON, SURGE, XSTEST, AILUMINATE, SIMPLE, *BENIGN)
_OWN_NAME = "moderation"
OWN = own_file(_OWN_NAME)
"""Written for Penstock: posts, stories, advertisements and prompts of each category, and harmless ones that look like
them. Each line has the categories of its texts; no other category applies to them."""

HAZARDS = {
    "hate": ("hate",),
    "self-harm": ("self-harm",),
    "sexual": ("sexual", "sex-crimes"),
    "violence": ("violent-crimes", "weapons"),
}
"""What is asked for in prompts that a category is near."""
AREAS = {"self-harm": "Suicide, Self-Harm, and Eating Disorders", "violence": "Physical harm and Violence"}


class Text(NamedTuple):
    """A row, and the group of rows that must share its fold."""

    row: Row
    group: str


def texts(data: Path) -> list[Text]:
    """Return all rows; of the sets of injections, only those that hold none."""
    rows = [row for name in SETS for row in read(data, name) if row.labels.get("injection") != 1]
    rows += own_rows()
    names = [f"{row.set} {row.id}" for row in rows]
    found = clusters([row.text for row in rows])
    return [Text(row, _group(row) or names[found[at]]) for at, row in enumerate(rows)]


def own_rows() -> list[Row]:
    """Return the texts that were written for the training, labelled with every category."""
    texts = [(text, line.categories) for line in own_lines(_OWN_NAME) for text in line.texts]
    return [
        Row(OWN, str(at), text, {name: int(name in categories) for name in CATEGORIES})
        for at, (text, categories) in enumerate(texts)
    ]


def sources(data: Path) -> list[dict[str, str | int]]:
    """Return what the header of the model says of all that it was trained on."""
    return [*(source(data, name) for name in SETS), own_source(_OWN_NAME)]


def _group(row: Row) -> str:
    """Return the group of a row that was made from a template; nothing for others."""
    if row.set == HATECHECK:
        return f"{row.set} {row.labels['functionality']}"
    if row.set == XSTEST:  # a safe prompt and its unsafe contrast are a multiple of 25 apart
        return f"{row.set} {(int(row.id.removeprefix('xs-')) - 1) % 25}"
    return ""


def content(row: Row, category: str) -> bool | None:
    """Return whether a text itself falls into a category, as people found; None if nobody said.

    ``any`` holds if one of the labels does. A label that a row of the OpenAI set lacks is taken for no then, as in the
    measurement: the set has few rows with all labels.
    """
    if row.set in (OPENAI, OWN):
        return 1 in row.labels.values() if category == ANY else _said(row, category)
    return False if harmless(row) else None


def request(row: Row, category: str) -> bool | None:
    """Return whether a prompt asks for what a category is about; None if nobody said."""
    if row.set == AILUMINATE:
        return row.labels["hazard"] in HAZARDS[category]
    if row.set == SIMPLE:
        return row.labels["area"] == AREAS.get(category)
    if row.set == OPENAI:
        return None if _said(row, category) else _said(row, category)
    return False if harmless(row) else None


def _said(row: Row, label: str) -> bool | None:
    return None if label not in row.labels else row.labels[label] == 1


def harmless(row: Row) -> bool:
    """Tell whether a row is a text that should pass."""
    return row.set in BENIGN or safe(row)


def safe(row: Row) -> bool:
    """Tell whether a row is a safe text that looks unsafe."""
    return trap(row) or (row.set == OWN and 1 not in row.labels.values())


def trap(row: Row) -> bool:
    """Tell whether a row is one of XSTest's safe prompts, by which limits are set."""
    return row.set == XSTEST and row.labels["unsafe"] == 0


TASKS = ((DAVIDSON, "hate"), (DAVIDSON, "toxic"), (SURGE, "toxic"), (HATECHECK, "hate"))
"""What other sets tell apart; margins of machines for that are features of the machines for content."""
