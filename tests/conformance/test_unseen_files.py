"""Files that nobody here has seen: the runner says of each row what came of it, however it is spelt or broken."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.builtin.frame import ORACLE, Fields
from tests.conformance.runner import run, run_file
from tests.conformance.runtime.frame import ORACLE as RUNTIME

FALSE = "a false expectation was met"
ROWS = 3  # of each file
JUNK: tuple[Any, ...] = (None, -1, True, "", "x", [], {}, [None], {"type": "text"})
SAID: Fields = {"type": "text-delta", "payload": {"id": "t", "text": "Hello there."}}
FINISH: Fields = {"type": "finish", "payload": {"finishReason": "stop"}}
CLEAN: dict[str, Fields] = {
    "classifier": {"verdict_script": [{"answer": "ok"}], "policy": None},
    "moderation": {"model_script": [{"object": {"category_scores": None, "reason": None}}]},
    "pii_detector": {"model_script": [{"object": {"categories": None, "detections": None}}]},
    "regex_filter": {},
    "system_prompt_scrubber": {"model_script": [{"object": {"detections": None, "reason": None}}]},
    "token_limiter_output": {},
}
"""What a stream guard is told of a harmless text."""

ANALYZED = {"classifier", "moderation", "pii_detector", "system_prompt_scrubber"}
OPTIONS: dict[str, Fields] = {
    "regex_filter": {"presets": ["pii"], "strategy": "redact"},
    "token_limiter_output": {"limit": 100},
}


@pytest.mark.parametrize("method", ["process_output_stream", "stream_through_runner"])
@pytest.mark.parametrize("file", CLEAN)
def test_streams_are_played_however_they_were_recorded(file: str, method: str, tmp_path: Path) -> None:
    """Call by call or as what left, with waits between; a harmless text comes through."""
    calls: Fields = {"returns": [SAID, {"waited": True}, FINISH]}
    if file in ("classifier", "moderation", "token_limiter_output"):
        calls = {"returns": ["emit", {"waited": True}, "emit"]}
    told = calls if method == "process_output_stream" else {"emitted": [SAID, FINISH], "text": "Hello there."}
    if file == "token_limiter_output":
        told = {"returns": ["emit", "emit"]} if method == "process_output_stream" else told
        told["custom_chunks"] = []
    if file in ANALYZED:
        told["analyzed"] = ["Hello there."]
    given = {"method": method, "chunks": [SAID, {"wait_ms": 5}, FINISH], **CLEAN[file]}
    [found] = played(tmp_path, file, [{"options": OPTIONS.get(file, {}), "input": given, "expected": told}])
    assert found.passed, (found.detail, found.expected, found.ours)


def played(folder: Path, file: str, rows: list[Any]) -> list[Any]:
    """Return what comes of rows, without that of a false one."""
    path = folder / f"{file}.json"
    path.write_text(json.dumps(rows), "utf-8")
    return [one for one in run_file(path).findings if one.detail != FALSE]


@pytest.mark.rest
def test_every_row_of_a_shuffled_file_is_told_of(tmp_path: Path) -> None:
    """Expectations of other rows, which rules and projections may not be able to read."""
    dice = random.Random(1)  # noqa: S311 - not for secrets
    for path in sorted(ORACLE.glob("*.json")):
        rows = json.loads(path.read_text("utf-8"))
        expected = [row["expected"] for row in rows]
        some = dice.sample(rows, min(ROWS, len(rows)))
        mixed = [{**row, "expected": dice.choice(expected)} for row in some]
        assert len(played(tmp_path, path.stem, mixed)) == len(mixed)


@pytest.mark.rest
def test_every_row_of_a_broken_file_is_told_of(tmp_path: Path) -> None:
    """Missing keys, other values, rows that are none."""
    dice = random.Random(2)  # noqa: S311 - not for secrets
    for path in sorted(ORACLE.glob("*.json")):
        rows = json.loads(path.read_text("utf-8"))
        changed = [broken(row, dice) for row in dice.sample(rows, min(ROWS, len(rows)))]
        mixed = [*changed, None, [], "x", {}]
        assert len(played(tmp_path, path.stem, mixed)) == len(mixed)


def test_broken_scenarios_are_told_of(tmp_path: Path) -> None:
    """What was observed is another scenario's, or of another shape, or not there."""
    for path in sorted(RUNTIME.glob("*.json"))[::8]:
        content = json.loads(path.read_text("utf-8"))
        for index, other in enumerate(({**content, "observed": {"x": 1}}, {"observed": content["observed"]}, 3)):
            (tmp_path / f"{path.stem}{index}.json").write_text(json.dumps(other), "utf-8")
    (tmp_path / "no.json").write_text("{", "utf-8")
    assert all(report.findings for report in run(tmp_path))


def broken(row: Fields, dice: random.Random) -> Fields:
    """Return a copy of a row in which something is missing or something else."""
    copy: Fields = json.loads(json.dumps(row))
    *before, last = dice.choice([path for path in paths(copy) if path])
    node: Any = copy
    for name in before:
        node = node[name]
    if dice.random() < 1 / 2:
        del node[last]
    else:
        node[last] = dice.choice(JUNK)
    return copy


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of a JSON value."""
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, below in items:
        yield from paths(below, (*path, name))
