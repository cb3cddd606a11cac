"""The simulation behind docs/scale.md: its arithmetic, and that the page holds what it computes."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale import __main__ as command, measure, model, page
from benchmarks.scale.figures import FILE, load
from penstock.workflows.presets import PRESETS, hygiene

pytestmark = pytest.mark.rest


def test_the_page_holds_what_the_committed_figures_give() -> None:
    """If it does not: python -m benchmarks.scale --write."""
    assert page.taken_from(page.PAGE.read_text(encoding="utf-8")) == page.tables(load())


def test_every_preset_was_measured() -> None:
    """In each table."""
    figures = load()
    for table in (figures["streams"], figures["processes"], figures["shared"]):
        assert table.keys() == PRESETS.keys()
    assert {f"{name}()" for name in PRESETS} <= figures["rows"].keys()
    for stream in figures["streams"].values():
        assert sum(stream["pieces"]) / len(stream["pieces"]) == pytest.approx(stream["seconds"]["median"], rel=0.3)


@pytest.mark.parametrize("load_of_core", [0.5, 0.8, 0.9])
def test_delays_are_those_of_the_queue_that_can_be_computed(load_of_core: float) -> None:
    """Where costs are exponential, so are the delays, with the mean 1 / (1 - load) (the queue M/M/1)."""
    pieces = [-math.log(1 - (at + 0.5) / 2000) / 1000 for at in range(2000)]
    found = model.delays(pieces, 0.0, load_of_core)
    mean = sum(pieces) / len(pieces) / (1 - load_of_core)
    assert found.median == pytest.approx(mean * math.log(2), rel=0.15)
    assert found.late == pytest.approx(mean * math.log(100), rel=0.2)


def test_more_load_is_more_delay_and_nobody_waits_at_an_idle_core() -> None:
    """The event loop's work counts as the guards' does."""
    pieces = [0.0001, 0.0003]
    found = [model.delays(pieces, 0.0001, load) for load in (0.001, 0.5, 0.9)]
    assert [each.median for each in found] == sorted(each.median for each in found)
    assert [each.late for each in found] == sorted(each.late for each in found)
    assert found[0].late == pytest.approx(0.0004)
    assert model.streams_at(0.5, 0.0002) == 25


def test_cores_check_more_rows_until_the_parent_is_full() -> None:
    """Then more of them change nothing."""
    assert model.rows_with_one_parent(1, 0.001, 0.009) == (pytest.approx(100), False)
    assert model.rows_with_one_parent(5, 0.001, 0.009) == (pytest.approx(500), False)
    assert model.rows_with_one_parent(20, 0.001, 0.009) == (pytest.approx(1000), True)
    assert model.cores_that_fill_a_parent(0.001, 0.009) == pytest.approx(10)


def test_a_rate_limit_does_not_ask_how_many_cores_there_are() -> None:
    """It says how many are enough."""
    assert model.rows_with_a_limit(6000, 0.002) == (100, pytest.approx(0.2))


def test_a_page_keeps_its_text_around_the_tables() -> None:
    """However often they are put in."""
    once = page.put_in(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", "new")
    assert once == f"before\n{page.BEGIN}\n\nnew\n\n{page.END}\nafter\n"
    assert page.put_in(once, "new") == once
    assert page.taken_from(once) == "new"


def test_a_reader_can_put_in_his_own_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the time is half the rows, and other assumptions are other limits."""
    figures: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    figures["assumed"]["judge_requests_per_minute"] = 60
    for each in figures["shared"].values():
        for name in ("parent_seconds", "worker_seconds"):
            each[name] = {key: value * 2 for key, value in each[name].items()}
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps(figures), encoding="utf-8")
    assert command.main(["--figures", str(mine)]) == 0
    out = capsys.readouterr().out
    assert "With 60 requests a minute and one request a row, 1 rows a second" in out
    assert out != page.tables(load())


def test_a_stream_is_timed_piece_by_piece_and_weighed_alive() -> None:
    """One that has more text in it is no lighter."""
    workflow = hygiene()
    texts = [measure.pieces_of("Some words of an answer. " * 20), measure.pieces_of("Others, with a comma. " * 20)]
    costs = asyncio.run(measure.piece_costs(workflow, texts))
    assert len(costs) == len(texts) * measure.PIECES
    assert min(costs) > 0
    early, late = asyncio.run(measure.weights(workflow, texts))
    assert 1_000 < early < 200_000
    assert 1_000 < late < 200_000
