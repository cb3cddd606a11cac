"""The engine's merge agrees with a naive one that shares no code with it; `tests.engine.judge` runs this at length."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from penstock import Edit, InputContext, Message, MessageList, Processor, Workflow
from penstock.engine import pick
from tests.engine.judge import check_composition, check_merge, check_tree, meetings, short_conversations
from tests.laws import examples

HERE = Path(__file__).parents[1]
ALGORITHMS = {"merging", "edits", "execution", "streams", "text_guards"}
"""Rooms and modules that compose, compare and merge."""
VALUES = {"Pick", "Edit"}
SOME = settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
FEW = settings(SOME, max_examples=examples(80), derandomize=True, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@pytest.fixture(autouse=True, scope="module")
def quiet_log() -> Iterator[None]:
    """Joins fail here on purpose."""
    log = logging.getLogger("penstock")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


@pytest.mark.parametrize("name", ["naive_merge.py", "interpreter.py"])
def test_the_oracle_shares_no_algorithm_with_the_engine(name: str) -> None:
    """Of the modules that compose, compare and merge it imports nothing but values."""
    found: list[str] = []
    for node in ast.walk(ast.parse((HERE / name).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("penstock")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock."):
            imported = {alias.name for alias in node.names}
            if ALGORITHMS & ({*(node.module or "").split("."), *imported}) and not imported <= VALUES:
                found.append(ast.unparse(node))
    assert found == []


@SOME
@given(st.data())
def test_edits_compose_as_each_character_says(data: st.DataObject) -> None:
    """One round of edits after another."""
    check_composition(data)


@SOME
@given(st.data())
def test_edits_merge_as_each_character_says(data: st.DataObject) -> None:
    """Several branches' edits of one text."""
    check_merge(data)


@FEW
@given(meetings(depth=1), short_conversations())
def test_joins_give_what_the_naive_merge_gives(workflow: Workflow, messages: tuple[Message, ...]) -> None:
    """Parallels, arms that all hold, dags, nested, under every policy."""
    check_tree(workflow, messages)


class Edits(Processor):
    """Makes edits to the first text."""

    edits = "spans"
    role = "transform"

    def __init__(self, id: str, *edits: Edit) -> None:
        self.id = id
        self.made = edits

    def process_input(self, ctx: InputContext) -> MessageList:
        """Make them."""
        place = next(iter(ctx.message_list.texts()))[0]
        return ctx.message_list.edit_text({place: self.made})


def check(*steps: Any, merge: Any) -> str:
    """What a parallel of steps leaves of a text."""
    return Workflow("w").parallel(*steps, merge=merge).check_sync("my secret word").unwrap().text


def test_a_deletion_that_covers_a_redaction_is_not_let_go() -> None:
    """Merged inside with the redaction, it hides what that hid, so no policy outside may choose other words."""
    deletes, hides = Edits("deletes", Edit(3, 9)), Edits("hides", Edit(3, 9, "[X]", "redact"))
    shouts = Edits("shouts", Edit(0, 14, "MY SECRET WORD"))
    inner = Workflow("inner").parallel(deletes, hides)
    for merge in ("last", pick("shouts")):
        assert "SECRET" not in check(inner, shouts, merge=merge)


def test_a_branch_can_be_picked_that_says_the_same_as_another() -> None:
    """Equal edits are one, and belong to all who made them."""
    one, same = (Edits(name, Edit(0, 9, "your own")) for name in ("one", "same"))
    assert check(one, same, Edits("other", Edit(0, 2, "our")), merge=pick("same")) == "your own word"


def test_an_insertion_that_was_taken_back_is_no_edit() -> None:
    """It is in nobody's way."""
    back = Workflow("back").then(Edits("in", Edit(5, 5, "!", "insert"))).then(Edits("out", Edit(5, 6)))
    assert check(back, Edits("other", Edit(3, 9, "public")), merge=None) == "my public word"
