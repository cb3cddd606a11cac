"""Whether edits compose, merge and apply as they should: laws on random edits, and the rules one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Edit
from penstock.engine import EditError
from penstock.engine.values.edits import (
    apply,
    compose,
    difference,
    in_order,
    merge,
    normalise,
    remainder,
    stamp,
    unite_overlaps,
)
from tests.laws import examples

MANY = settings(max_examples=examples(1_500))
TEXT = "abcdefghijklmnop"


@st.composite
def edits_for(draw: Any, length: int, kinds: tuple[str, ...] = ("redact", "replace")) -> tuple[Edit, ...]:
    """Sorted, disjoint edits of a text of that length."""
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    made = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        text = draw(st.sampled_from(["", "1", "22", "333", "4444444"]))
        kind = "insert" if start == end and draw(st.booleans()) else draw(st.sampled_from(kinds))
        made.append(Edit(start, end, text, kind))  # type: ignore[arg-type]
    return tuple(made)


@st.composite
def two_rounds(draw: Any) -> tuple[str, tuple[Edit, ...], tuple[Edit, ...]]:
    """A text, edits of it, and edits of what they make of it."""
    text = draw(st.text("abcdefgh", max_size=16))
    first = draw(edits_for(len(text)))
    return text, first, draw(edits_for(len(apply(text, first))))


def doing_something(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits without those that take nothing away and put nothing there."""
    return tuple(edit for edit in edits if edit.start < edit.end or edit.text)


@MANY
@given(two_rounds())
def test_composed_edits_do_what_one_after_the_other_does(case: Any) -> None:
    """And what they make of a text is a text: sorted, disjoint, and within it."""
    text, first, second = case
    composed = compose(first, second)
    assert apply(text, composed) == apply(apply(text, first), second)
    assert normalise(composed, text) == doing_something(composed)


@MANY
@given(two_rounds(), st.data())
def test_composing_is_associative_in_what_it_does(case: Any, data: st.DataObject) -> None:
    """Three rounds of edits, bracketed either way."""
    text, first, second = case
    third = data.draw(edits_for(len(apply(apply(text, first), second))))
    one, other = compose(compose(first, second), third), compose(first, compose(second, third))
    assert apply(text, one) == apply(text, other)


@MANY
@given(two_rounds())
def test_a_composed_redaction_covers_what_each_of_them_hid(case: Any) -> None:
    """No character that the first round touched is outside the composed edits."""
    text, first, second = case
    composed = compose(first, second)
    touched = {index for edit in first for index in range(edit.start, edit.end)}
    covered = {index for edit in composed for index in range(edit.start, edit.end)}
    assert touched <= covered, (text, composed)


def test_what_a_redaction_unites_with_other_words_is_no_redaction() -> None:
    """Its text quotes what stood there, which a sibling may hide: it must not win over the sibling's redaction."""
    rewritten = (Edit(0, 20, "my secret is out & so on", "replace"),)
    (united,) = compose(rewritten, (Edit(17, 18, "[X]", "redact"),))
    assert united.kind == "replace"
    (pure,) = compose((Edit(3, 9, "[S]", "redact"),), (Edit(2, 7, "[more]", "redact"),))
    assert pure.kind == "redact"
    (hidden,) = compose(rewritten, (Edit(0, 24, "[all]", "redact"),))
    assert hidden.kind == "redact"
    (shown,) = compose((Edit(3, 9, "[S]", "redact"),), (Edit(3, 6, "what it was", "replace"),))
    assert shown.kind == "replace"
    (inserted,) = compose((Edit(3, 3, "ab", "insert"),), (Edit(4, 4, "!", "insert"),))
    assert (inserted.kind, inserted.text) == ("insert", "a!b")


@MANY
@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_a_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    """As one edit, with nothing in common at its ends."""
    edits = difference(before, after, "step")
    assert apply(before, edits) == after
    assert len(edits) <= 1
    for edit in edits:
        cut = before[edit.start : edit.end]
        assert not (cut and edit.text and (cut[0] == edit.text[0] or cut[-1] == edit.text[-1]))
        assert (edit.kind == "insert") == (not cut)


@MANY
@given(st.lists(edits_for(len(TEXT), ("redact",)), min_size=1, max_size=4))
def test_merged_redactions_cover_the_union_and_never_disagree(branches: list[tuple[Edit, ...]]) -> None:
    """Whatever one of them hid is hidden."""
    merged, conflicts = merge(branches)
    assert conflicts == []
    hidden = {i for edits in branches for edit in edits if edit.kind == "redact" for i in range(edit.start, edit.end)}
    covered = {index for edit in merged for index in range(edit.start, edit.end)}
    assert hidden <= covered
    assert normalise(merged, TEXT) == doing_something(merged)
    assert not {TEXT[index] for index in hidden} & set(apply(TEXT, merged))


@MANY
@given(st.lists(edits_for(len(TEXT)), min_size=2, max_size=3))
def test_a_merge_covers_every_redaction_or_says_that_it_cannot(branches: list[tuple[Edit, ...]]) -> None:
    """Edits that replace may disagree with it; then there is a conflict, and nothing is applied."""
    merged, conflicts = merge(branches)
    if not conflicts:
        hidden = {i for edits in branches for e in edits if e.kind == "redact" for i in range(e.start, e.end)}
        assert not {TEXT[index] for index in hidden} & set(apply(TEXT, merged))


@MANY
@given(edits_for(len(TEXT)), st.integers(0, 2))
def test_merging_with_those_who_changed_nothing_changes_nothing(edits: tuple[Edit, ...], place: int) -> None:
    """Alone, or with the very same edits made by another."""
    branches: list[tuple[Edit, ...]] = [(), ()]
    branches.insert(place, edits)
    assert apply(TEXT, merge(branches)[0]) == apply(TEXT, edits)
    assert apply(TEXT, merge([edits, edits])[0]) == apply(TEXT, edits)


def test_two_equal_insertions_of_one_branch_both_stay() -> None:
    """They are its own doing; only the same edit by another branch is one with it."""
    twice = (Edit(3, 3, "-", "insert"), Edit(3, 3, "-", "insert"))
    merged, conflicts = merge([twice, (Edit(9, 10, "X", "redact"),)])
    assert (apply(TEXT, merged), conflicts) == ("abc--defghiXklmnop", [])


def test_what_a_later_step_puts_in_front_stays_in_front() -> None:
    """Of two branches that inherited an insertion, one wrote before it and one behind it."""
    old, front, back = (Edit(0, 0, text, "insert") for text in ("old ", "front ", "back "))
    merged, conflicts = merge([(old,), (front, old), (old, back)])
    assert (apply("text", merged), conflicts) == ("front old back text", [])


@st.composite
def findings_of_one_guard(draw: Any) -> tuple[Edit, ...]:
    """Redactions that may overlap, and insertions; no two are equal."""
    made: dict[tuple[int, int, str], Edit] = {}
    for number in range(draw(st.integers(0, 6))):
        start, end = sorted(draw(st.tuples(st.integers(0, 10), st.integers(0, 10))))
        made[start, end, str(number)] = Edit(start, end, str(number), "insert" if start == end else "redact")
    return in_order(made.values())


@MANY
@given(findings_of_one_guard())
def test_one_guards_redactions_become_their_unions_and_insertions_outside_stay(found: tuple[Edit, ...]) -> None:
    """Written naively, gap by gap: two neighbouring characters are in one union if a redaction covers both."""
    joined = {gap for edit in found for gap in range(edit.start + 1, edit.end)}
    expected = [(edit.start, edit.end, edit.text, "insert") for edit in found if edit.kind == "insert"]
    expected = [item for item in expected if item[0] not in joined]
    redactions = [edit for edit in found if edit.kind == "redact"]
    for start in {edit.start for edit in redactions} - joined:
        end = next(at for at in range(start + 1, len(TEXT) + 1) if at not in joined)
        inside = [edit for edit in redactions if start <= edit.start and edit.end <= end]
        widest = max(inside, key=lambda edit: edit.end - edit.start)
        expected.append((start, end, widest.text, "redact"))
    united = unite_overlaps(found)
    assert [(edit.start, edit.end, edit.text, edit.kind) for edit in united] == sorted(expected, key=lambda e: e[:2])
    assert normalise(united, TEXT) == united


ONE_GUARD = [
    ("nothing overlaps", [Edit(0, 2, "a", "redact"), Edit(2, 4, "b", "redact")], "ab"),
    ("the first of two as wide", [Edit(0, 3, "a", "redact"), Edit(1, 4, "b", "redact")], "a"),
    ("equal edits are one", [Edit(0, 4, "a"), Edit(0, 4, "a")], "a"),
    ("a deletion wins over what lies in it", [Edit(0, 4, ""), Edit(1, 3, "b", "redact")], ""),
    (
        "insertions at one point stay, in their order",
        [Edit(0, 0, "2", "insert"), Edit(0, 0, "1", "insert"), Edit(0, 3, "a", "redact"), Edit(2, 4, "b", "redact")],
        "21a",
    ),
]


@pytest.mark.parametrize(("found", "text"), [rule[1:] for rule in ONE_GUARD], ids=[rule[0] for rule in ONE_GUARD])
def test_one_guards_findings_are_united_by_the_rules(found: list[Edit], text: str) -> None:
    """One rule a row; the text is four characters long."""
    assert apply("text", unite_overlaps(found)) == text


def test_of_one_guards_equal_edits_the_redaction_stays() -> None:
    """And what a deletion takes the place of stays hidden."""
    (united,) = unite_overlaps([Edit(0, 4, "a"), Edit(0, 4, "a", "redact")])
    assert united.kind == "redact"
    (united,) = unite_overlaps([Edit(0, 4, ""), Edit(1, 3, "b", "redact")])
    assert united.hidden


@pytest.mark.parametrize(
    "found",
    [
        [Edit(0, 3, "a"), Edit(2, 4, "b")],
        [Edit(0, 3, "a"), Edit(2, 4, "b", "redact")],
        [Edit(0, 4, "a"), Edit(2, 2, "b", "insert")],
    ],
)
def test_other_overlaps_of_one_guard_are_its_mistake(found: list[Edit]) -> None:
    """Only redactions and deletions can take the place of what they overlap with."""
    with pytest.raises(EditError, match="return disjoint edits"):
        unite_overlaps(found)


REDACT = Edit(3, 8, "[wide]", "redact")
RULES = [
    (
        "insertions at one point both stay",
        [[Edit(3, 3, "1", "insert")], [Edit(3, 3, "2", "insert")]],
        "abc12defghijklmnop",
    ),
    ("equal edits are one", [[Edit(3, 4, "X")], [Edit(3, 4, "X")]], "abcXefghijklmnop"),
    ("of equal ones the redaction is kept", [[Edit(3, 4, "X")], [Edit(3, 4, "X", "redact")]], "abcXefghijklmnop"),
    ("the wider replacement covers the union", [[REDACT], [Edit(6, 10, "[n]", "redact")]], "abc[wide]klmnop"),
    ("whoever comes first", [[Edit(6, 10, "[n]", "redact")], [REDACT]], "abc[wide]klmnop"),
    ("a redaction swallows insertions inside it", [[REDACT], [Edit(5, 5, "!", "insert")]], "abc[wide]ijklmnop"),
    ("but not at its start", [[REDACT], [Edit(3, 3, "!", "insert")]], "abc![wide]ijklmnop"),
    ("nor at its end", [[REDACT], [Edit(8, 8, "!", "insert")]], "abc[wide]!ijklmnop"),
    ("a deletion wins over what lies in it", [[Edit(3, 8, "")], [Edit(4, 6, "words")]], "abcijklmnop"),
    ("neighbours do not touch", [[Edit(3, 5, "X")], [Edit(5, 7, "Y")]], "abcXYhijklmnop"),
]


@pytest.mark.parametrize(("branches", "text"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_edits_merge_by_the_rules(branches: Any, text: str) -> None:
    """DESIGN §7, one rule a row."""
    merged, conflicts = merge([tuple(edits) for edits in branches])
    assert (apply(TEXT, merged), conflicts) == (text, [])


@pytest.mark.parametrize(
    "branches",
    [
        [[Edit(3, 8, "one")], [Edit(3, 8, "two")]],
        [[Edit(3, 8, "one")], [Edit(5, 6, "x", "redact")]],
        [[Edit(3, 8, "one")], [Edit(5, 5, "!", "insert")]],
        [[Edit(3, 8, "")], [Edit(7, 9, "over the edge")]],
    ],
)
def test_everything_else_is_a_conflict(branches: Any) -> None:
    """Two replacements, a replacement over a redaction, a deletion that does not cover the other."""
    _, conflicts = merge([tuple(edits) for edits in branches])
    assert len(conflicts) == 1


@pytest.mark.parametrize(("start", "end", "kind"), [(-1, 2, "replace"), (3, 2, "replace"), (1, 2, "insert")])
def test_an_edit_that_cannot_be_is_refused(start: int, end: int, kind: Any) -> None:
    """Negative, reversed, or an insertion with a width."""
    with pytest.raises(EditError):
        Edit(start, end, "x", kind)


def test_edits_that_do_not_fit_are_refused_without_quoting_the_text() -> None:
    """Overlapping, or beyond the end."""
    with pytest.raises(EditError, match="overlap at position 2"):
        normalise([Edit(0, 3), Edit(2, 4)], "secret")
    with pytest.raises(EditError, match="ends at 9, but the text has 6") as caught:
        normalise([Edit(0, 9)], "secret")
    assert "secret" not in str(caught.value)


def test_edits_are_put_in_order_and_under_a_name() -> None:
    """Those that bear a name keep it."""
    assert in_order([Edit(4, 5), Edit(0, 1)]) == (Edit(0, 1), Edit(4, 5))
    assert stamp((Edit(0, 1), Edit(2, 3, step="mine")), "a") == (Edit(0, 1, step="a"), Edit(2, 3, step="mine"))
    assert apply("text", ()) == "text"


def test_what_is_left_of_a_guards_edit_still_hides() -> None:
    """A dag sees the part that a later member added; an outer ``merge="last"`` must not bring the text back."""
    done = (Edit(0, 2, "xx", "replace", "words"),)
    whole = (Edit(0, 2, "xx", "replace", "words"), Edit(4, 8, "****", "replace", "guard", hides=True))
    [left] = remainder(done, whole, "ab, secret")
    assert (left.start, left.end, left.text, left.hidden) == (4, 8, "****", True)
