"""Reads development data and texts written for Penstock, and says where they are from; it knows no model."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
Labels = dict[str, int | str]


class Row(NamedTuple):
    """A text of a data set, and what people said of it."""

    set: str
    id: str
    text: str
    labels: Labels


def read(data: Path, name: str) -> list[Row]:
    """Return the development rows of a data set, in the order of its file."""
    lines = (data / name / "dev.jsonl").read_text("utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line]
    return [Row(name, row["id"], row["text"], row.get("labels") or {"lang": row.get("lang", "")}) for row in rows]


def digest(data: Path, name: str) -> str:
    """Return the hash of the development file of a data set."""
    return sha256((data / name / "dev.jsonl").read_bytes()).hexdigest()


def licence(data: Path, name: str) -> str:
    """Return what its PROVENANCE.md says of the licence of a data set."""
    found = re.search(r"\*\*licence\*\*: (.*)", (data / name / "PROVENANCE.md").read_text("utf-8"))
    if found is None:
        message = f"{name} states no licence"
        raise ValueError(message)
    return found[1].strip()


def source(data: Path, name: str) -> dict[str, str | int]:
    """Return what the header of a model says of a data set that it was trained on."""
    return {"set": name, "licence": licence(data, name), "rows": len(read(data, name)), "sha256": digest(data, name)}


class OwnTexts(NamedTuple):
    """A line of a file of texts that were written for Penstock: the texts, and what holds for all of them."""

    texts: Sequence[str]
    lang: str = ""
    categories: Sequence[str] = ()


def own_file(name: str) -> str:
    """Return the path of a file of texts that were written for Penstock, from the root of the repository."""
    return f"training/texts/{name}.jsonl"


def own_lines(name: str) -> list[OwnTexts]:
    """Return the lines of a file of texts that were written for Penstock."""
    return [OwnTexts(**json.loads(line)) for line in (ROOT / own_file(name)).read_text("utf-8").splitlines()]


def own_source(name: str) -> dict[str, str | int]:
    """Return what the header of a model says of a file of texts that were written for Penstock."""
    return {
        "set": own_file(name),
        "licence": "Apache-2.0",
        "rows": sum(len(line.texts) for line in own_lines(name)),
        "sha256": sha256((ROOT / own_file(name)).read_bytes()).hexdigest(),
    }
