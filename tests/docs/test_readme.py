"""Whether what the README shows beside its code is true: the recorded picture, and figures that were measured."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from tests.hosts import cases

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
RESULTS = json.loads((ROOT / "tests" / "hosts" / "results.json").read_text("utf-8"))
FEWER = {"litellm_proxy", "mcp"}
"""Hosts that offer fewer places to guard; the README counts them by themselves."""


def test_the_picture_is_a_recording_of_today() -> None:
    """`make pictures` draws the same again: the same answer leaves after the same pieces."""
    script = ROOT / "docs" / "draw_stream.py"
    spec = importlib.util.spec_from_file_location("draw_stream", script)
    draw_stream = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_stream)
    assert draw_stream.PICTURE.read_text("utf-8") == draw_stream.drawn()
    assert "](docs/pictures/stream.svg)" in README


def rows(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head."""
    table = re.search(r"^\|.*?(?=^[^|])", text.split(f"\n{heading}\n")[1], re.MULTILINE | re.DOTALL)
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in table[0].splitlines()[2:]]


def test_the_figures_beside_the_peers_are_those_of_the_benchmark() -> None:
    """Nothing stands in the README that was not measured."""
    measured = {row[0]: row for row in rows(BENCHMARKS, "### Capacity")}
    shown = rows(README, "## What was measured")
    assert len(shown) == 6
    for guard, leaks, held in shown:
        _, _, _, both, all_leaks = measured[guard]
        assert all_leaks.startswith(leaks)
        assert f"{held.removesuffix(' ms')}, " in both


@pytest.mark.parametrize("release", ["lowest", "newest"])
def test_the_cases_that_hold_are_those_of_the_last_run(release: str) -> None:
    """In all hosts that offer every place, and in those that do not."""
    holds = {
        host: sum({*found.values()} == {"yes"} for found in results[release]["cases"].values())
        for host, results in RESULTS.items()
    }
    full = [count for host, count in holds.items() if host not in FEWER]
    assert full == [47] * 7
    said = f"47 of 47 in all 7; {holds['litellm_proxy']} in LiteLLM's proxy, {holds['mcp']} with MCP"
    assert said in README


def test_the_cases_that_leak_without_us_are_proven_to() -> None:
    """The suite shows for each that the framework alone fails."""
    assert {"secret split over chunks", "several turns", "tool call and result"} <= cases.LEAKS
