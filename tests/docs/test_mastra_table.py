"""Whether the options that the page for those who come from Mastra names are there, under these names."""

import inspect
import re
from pathlib import Path

import pytest

import penstock
from penstock import Processor
from penstock.processors import memory

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-mastra.md").read_text("utf-8")
SECTION = re.compile(r"^### \[(\w+)\]\(([^)]+)\)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"`([a-z_]+)`")
SECTIONS = [pytest.param(name, body, id=name) for name, _, body in SECTION.findall(PAGE)]


def options(processor: type[Processor]) -> set[str]:
    """The keywords of a constructor; those that all guards have stand behind ``**options``, `id` among them."""
    found = {*inspect.signature(processor.__init__).parameters}
    return found | {"id"} if "options" in found else found


@pytest.mark.parametrize(("name", "body"), SECTIONS)
def test_every_option_of_ours_is_there(name: str, body: str) -> None:
    """A name in the second column is an option of the processor in the heading."""
    rows = [line.split("|")[2] for line in body.splitlines() if line.startswith("| ")][1:]
    named = {option for row in rows for option in NAME.findall(row)}
    home = penstock if hasattr(penstock, name) else memory
    assert named - options(getattr(home, name)) == set()


def test_every_built_in_processor_is_on_the_page() -> None:
    """But for what Mastra has no counterpart of, and for examples in its documentation."""
    ours = {path.stem for path in (Path(__file__).parents[2] / "docs" / "processors").glob("*.md")}
    named = {Path(link).stem for _, link, _ in SECTION.findall(PAGE)}
    without = {"drop-messages", "drop-parts", "restore", "tool-policy", "command-policy", "human-review"}
    assert ours - named <= without
