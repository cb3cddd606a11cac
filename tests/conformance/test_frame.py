"""Whether a row is judged as DESIGN §12 says: a toy family whose reference shouts, and whose texts we must not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conformance.builtin.frame import Family, Fields, Finding, Given, Row, judge, judge_rows


def projection(fields: Fields) -> Fields:
    """Return the fields; a text without white space around it."""
    if "text" in fields:
        fields["text"] = str(fields["text"]).strip()
    return fields


def nobody_shouts(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Capitals are for the reference."""
    return {**expected, "text": given["text"]} if given["text"].islower() else None


def nobody_asks(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """An answer ends in no question mark."""
    return {**expected, "text": expected["text"].rstrip("?")} if "?" in expected.get("text", "") else None


FAMILY = Family(
    files=("toy",),
    run=lambda given: {"text": given.input["text"].rstrip("?"), "handle": 7},
    projections={"say": projection},
    rules=(nobody_shouts, nobody_asks),
    neutral={("say", "handle"): "a handle is nobody's business"},
    defaults={"loud": True},
)


def row(text: str, /, **expected: object) -> Row:
    """Return a row of the toy's only method."""
    return Row("toy", "row", Given({"loud": True}, {"method": "say", "text": text}), dict(expected))


def judged(text: str, /, ours: object = None, **expected: object) -> Finding:
    """Return what comes of a row if our side does that."""
    family = FAMILY if ours is None else replace(FAMILY, run=lambda _given: {"text": ours})
    return judge(family, row(text, **expected))


def test_what_no_rule_covers_must_be_the_same() -> None:
    """After the projection, which is applied to both."""
    assert judged("Hi", text=" Hi ").kind == "same"
    assert judged("Hi", text="Ho").kind == "differs"


def test_what_a_rule_covers_must_be_what_it_expects() -> None:
    """And is counted under its name."""
    found = judged("hi", text="HI")
    assert (found.kind, found.rule) == ("better", "nobody_shouts")
    assert judged("hi", ours="ho", text="HI").kind == "differs"


def test_equalling_the_reference_where_a_rule_covers_differs() -> None:
    """Doing as the reference does is no excuse there."""
    assert judged("hi", ours="HI", text="HI").kind == "differs"


def test_a_rule_that_expects_what_the_reference_did_covers_nothing() -> None:
    """It does not differ from it there."""
    found = judged("hi", text="hi")
    assert (found.kind, found.rule) == ("same", "")


def test_rules_add_up() -> None:
    """Each is given what the one before it expects."""
    found = judged("hi?", text="HI?")
    assert (found.kind, found.rule, found.expected) == ("better", "nobody_shouts + nobody_asks", {"text": "hi"})


def test_internals_are_left_out_and_counted() -> None:
    """A row that has nothing else is neutral."""
    assert judged("Hi", text="Hi", handle=3).neutral == 1
    assert judged("Hi", handle=3).kind == "neutral"


def test_a_verdict_counts_though_none_is_expected() -> None:
    """Not to block is a result too."""
    family = replace(FAMILY, run=lambda _given: {"text": "Hi", "tripwire": {"reason": "no"}})
    assert judge(family, row("Hi", text="Hi")).kind == "differs"


def test_an_expectation_that_cannot_be_read_differs() -> None:
    """Ours ran; what a rule or a projection makes nothing of is not what was expected, nor counted as not there."""
    assert judge(replace(FAMILY, rules=(breaks,)), row("Hi", text="Hi")).kind == "differs"


def breaks(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """Look for what is not there."""
    return {"text": expected["tokens"]}


def test_our_side_does_not_see_the_expectation() -> None:
    """It gets the options, completed, the input and the engine."""
    seen: list[Given] = []

    def run(given: Given) -> Fields:
        seen.append(given)
        return {}

    judge(replace(FAMILY, run=run), row("Hi", text="secret"))
    assert "secret" not in repr(seen)
    assert FAMILY.complete({}) == {"loud": True}


@pytest.mark.parametrize("texts", [("Hi", "Ho"), ("Hi", "Hi")])
def test_who_repeats_expectations_meets_a_false_one(texts: tuple[str, str]) -> None:
    """One more row is played, whose expectation is wrong; whoever computes does not meet it."""
    rows = [row(text, text=text) for text in texts]
    assert [one.kind for one in judge_rows(FAMILY, rows)] == ["same", "same"]
    echoed = judge_rows(FAMILY, rows, lambda _family, row: dict(row.expected))
    assert [one.kind for one in echoed] == ["same", "same", "differs"]
