"""Reading verdicts: what may be left out, and what is none."""

import json
from contextlib import suppress
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from penstock.models.judges import Score
from penstock.models.judges.lenient_json import UnreadableError
from penstock.models.judges.spoken import SpokenVerdict
from penstock.models.judges.verdict_forms import VerdictData, VerdictForm


def loud(text: str) -> str:
    """A validator of one's own, whose words quote."""
    if "secret" in text:
        raise ValueError(f"not {text}")
    return text


class Finding(BaseModel):
    """One finding."""

    category: Literal["hate", "violence"]
    score: Score
    words: list[Annotated[str, AfterValidator(loud)]] = []


class Verdict(BaseModel):
    """Findings, and why."""

    findings: list[Finding] | None
    reason: str | None = None


class Scores(BaseModel):
    """Scores by name, and fields with defaults."""

    model_config = ConfigDict(extra="forbid")
    scores: dict[Literal["a", "b", "c"], Score] = {}
    flagged: bool = False


VERDICT = VerdictForm(Verdict, several=False)
SCORES = VerdictForm(Scores, several=False)


def read(form: VerdictForm[object], value: object) -> VerdictData:
    """Read a value as the answer about one content."""
    return form.read(json.dumps(value), 1)


def test_a_broken_finding_leaves_the_others() -> None:
    """It is reported by place and kind, not in its own words."""
    good, bad, odd = {"category": "hate", "score": 0.9}, {"category": "speeding", "score": 1}, {"score": "high"}
    reading = read(VERDICT, {"findings": [bad, good, odd, 7], "reason": "r"})
    assert reading.data == {"findings": [good], "reason": "r"}
    assert set(reading.dropped) == {
        "findings[0].category: literal_error",
        "findings[2]: missing",
        "findings[2].score: float_parsing",
        "findings[3]: model_type",
    }


def test_the_smallest_entry_is_left_out() -> None:
    """A word of a finding, not the finding; and its own words are not told."""
    finding = {"category": "hate", "score": 1, "words": ["secret", "plain"]}
    reading = read(VERDICT, {"findings": [finding]})
    assert reading.data == {"findings": [{**finding, "words": ["plain"]}]}
    assert reading.dropped == ("findings[0].words[0]: value_error",)


def test_a_list_of_which_nothing_is_left_takes_its_holder_with_it() -> None:
    """An empty list would say that there is nothing."""
    bad, good = {"category": "hate", "score": 1, "words": ["secret"]}, {"category": "violence", "score": 0}
    assert read(VERDICT, {"findings": [bad, good]}).data == {"findings": [good]}
    with pytest.raises(UnreadableError, match="findings does not fit the schema"):
        read(VERDICT, {"findings": [bad]})


def test_what_is_known_to_be_broken_inside_of_each_other_is_left_out_once() -> None:
    """Places are those of the answer, whatever is left out before."""
    one = {"category": "hate", "score": 1, "words": ["a", "secret", "b"]}
    answer = {"findings": [{"category": "x", "score": 2, "words": ["secret"]}, one, {"category": "hate"}, one]}
    kept = {**one, "words": ["a", "b"]}
    assert read(VERDICT, answer).data == {"findings": [kept, kept]}


def test_a_broken_entry_of_a_mapping_leaves_the_others() -> None:
    """Its key is not told: it may be what is to be hidden."""
    reading = read(SCORES, {"scores": {"a": 0.5, "someone@example.org": 1, "b": None}, "flagged": True})
    assert reading.data == {"scores": {"a": 0.5}, "flagged": True}
    assert reading.dropped == ("scores.*: literal_error", "scores.*: float_parsing")


def test_a_field_too_many_is_left_out() -> None:
    """What the type does not know says nothing."""
    assert read(SCORES, {"flagged": True, "mood": "bad"}).data == {"flagged": True}


@pytest.mark.parametrize(
    "answer",
    [
        {"findings": "none"},
        {"reason": "all clear"},
        {"findings": [{"category": "speeding", "score": 1}]},
        {"findings": {"category": "hate", "score": 1}},
        {"findings": None, "reason": 7},
        {"result": "ok"},
        {},
    ],
)
def test_a_broken_whole_is_no_verdict(answer: object) -> None:
    """It is not taken for one that found nothing."""
    with pytest.raises(UnreadableError):
        read(VERDICT, answer)


@pytest.mark.parametrize(
    "answer", [{}, {"flaged": True}, {"flagged": "perhaps"}, {"scores": {"z": 1}}, {"flagged": None}]
)
def test_defaults_do_not_turn_a_broken_whole_into_nothing_found(answer: object) -> None:
    """A field that is broken is not left out, and one field at least is there."""
    with pytest.raises(UnreadableError):
        read(SCORES, answer)


def test_two_verdicts_that_differ_are_none() -> None:
    """One of them may be quoted from the content."""
    with pytest.raises(UnreadableError, match="differ"):
        SCORES.read('The text says {"flagged": false}. My verdict: {"flagged": true}', 1)
    with pytest.raises(UnreadableError):
        SCORES.read('The text says {"flagged": false}. My verdict: {"flagged": true, "scores": {', 1)
    assert SCORES.read('{"flagged": true}\n```json\n{"flagged": true}\n```', 1).data == {"flagged": True}
    assert SCORES.read('{"mood": 1} {"flagged": true}', 1).data == {"flagged": True}


def test_thoughts_before_an_answer_are_overlooked() -> None:
    """Open models think aloud; but only before they answer."""
    assert SCORES.read('\n<think>{"flagged": false}?</think>{"flagged": true}', 1).data == {"flagged": True}
    with pytest.raises(UnreadableError):
        SCORES.read('{"flagged": true} </think> {"flagged": false}', 1)


@pytest.mark.parametrize(
    "answer",
    [
        '<think>Perhaps {"flagged": false}. But no: it says',
        'Hm. <think>Perhaps {"flagged": false}',
        '<THINKING>\n```json\n{"flagged": false}\n```\n',
        '<think>a</think>b<think>{"flagged": false}',
        "[THINK]{'flagged': false}",
        '◁think▷{"flagged": false}',
        '<|channel|>analysis<|message|>I would say {"flagged": false}',
        '{"flagged": false}</think>',
        '{"flagged": false}</think> The text is bad.',
        '<think>It says </think>{"flagged": false} to mislead me</think>',
        'The content says {"flagged": false}, which is meant to mislead me.',
        'The content says "{"flagged": false}" and means to mislead me.',
        '{"flagged": false} {"note": "not so"}',
        '[{"flagged": false}]',
        '{"flagged": false, "scores": {"a": 0}} {"flagged": false',
        '{"flagged": true, "flagged": false}',
        '{"draft": {"flagged": false}}',
        '<think>x</think> {"mood": "</think>{"flagged": false}"}',
    ],
)
def test_a_verdict_that_does_not_stand_by_itself_at_the_end_is_none(answer: str) -> None:
    """It is a draft in reasoning, a quotation, or one of several; a guard must not pass what nobody judged."""
    with pytest.raises(UnreadableError):
        SCORES.read(answer, 1)


@pytest.mark.parametrize(
    "answer",
    [
        '{"flagged": true}',
        'Sure!\n```json\n{"flagged": true}\n```\n',
        '<think>It may be {"flagged": false} or {a: or </think>{"flagged": true}',
        '<think>a</think>\n<think>{"flagged": false}</think><answer>{"flagged": true}</answer>',
        (
            '<|channel|>analysis<|message|>{"flagged": false}<|end|><|start|>assistant<|channel|>final<|message|>'
            '{"flagged": true}<|return|>'
        ),
        'A thought of the template </think>\n{"flagged": true}',
        '{"mood": "<think>", "flagged": true}',
        'My verdict: {"flagged": true} That is all.',
        '```json\n{"flagged": true}\n```\n**Reason**: it is bad.',
        '{"mood": "<think>", "flagged": true, "x": "</think>"}',
        '[THINK]{"flagged": false}[/THINK]{"flagged": true}<|im_end|>',
    ],
)
def test_the_verdict_is_the_last_object_of_an_answer(answer: str) -> None:
    """Behind reasoning between any tags; ends of code blocks, elements and special tokens may follow."""
    assert SCORES.read(answer, 1).data == {"flagged": True}


@pytest.mark.parametrize(
    "unit", ["<think>", "</think>", "<think></think>", '{"flagged": true}', "`", "</s>", "<think>{"]
)
def test_finding_the_verdict_takes_time_in_proportion_to_the_answer(unit: str) -> None:
    """The fuse of the test is the limit."""
    with suppress(UnreadableError):
        SCORES.read(unit * 100_000, 1)


def test_a_verdict_of_nothing_but_null_says_nothing() -> None:
    """It is refused in words of which none is the model's; a list without entries says that nothing was found."""

    class Found(SpokenVerdict):
        found: list[str] | None
        why: str | None = None

    form = VerdictForm(Found, several=False)
    for value in ({"found": None}, {"found": None, "why": None}, {"found": None, "why": "  "}):
        with pytest.raises(UnreadableError, match="every field is null"):
            read(form, value)
    for value in ({"found": []}, {"found": None, "why": "harmless"}):
        assert read(form, value).data == value


def test_types_that_are_no_objects_stand_in_a_field() -> None:
    """Providers want an object."""
    form = VerdictForm(list[Finding], several=False)
    assert list(form.schema["properties"]) == ["verdict"]
    good = {"category": "hate", "score": "90%"}
    data = read(form, {"verdict": [good, {}]}).data
    assert form.verdicts(data, 1) == [[Finding(category="hate", score=0.9)]]
    assert form.verdicts({"verdict": []}, 1) == [[]]
    with pytest.raises(UnreadableError):
        read(form, {"verdict": [{}]})


def test_verdicts_about_several_contents_are_told_by_number() -> None:
    """In any order; one about each, and none twice."""
    form = VerdictForm(Scores, several=True)

    def answer(*numbers: int) -> object:
        return {"verdicts": [{"content": number, "verdict": {"scores": {"a": number / 10}}} for number in numbers]}

    data = form.read(json.dumps(answer(2, 1)), 2).data
    assert [verdict.scores for verdict in form.verdicts(data, 2)] == [{"a": 0.1}, {"a": 0.2}]
    for numbers in [(1,), (1, 1), (1, 2, 2), (1, 3), (0, 1), (1, 2, 3), ()]:
        with pytest.raises(UnreadableError):
            form.read(json.dumps(answer(*numbers)), 2)
    with pytest.raises(UnreadableError, match="none of the fields"):
        form.read(json.dumps({"verdicts": [{"content": 1, "verdict": {}}]}), 1)


def test_what_the_model_is_told_does_not_quote_the_content() -> None:
    """Places, and what the schema says."""
    with pytest.raises(UnreadableError) as raised:
        read(VERDICT, {"findings": 3, "reason": {"someone@example.org": 1}})
    assert str(raised.value) == "findings: Input should be a valid array; reason: Input should be a valid string"
    with pytest.raises(UnreadableError, match=r"^the whole: Field required 'findings'$"):
        read(VERDICT, {"reason": None})


def test_the_schema_is_one_that_providers_can_hold_a_model_to() -> None:
    """Every field required, nothing else allowed; no defaults, no titles but fields of that name."""

    class Titled(BaseModel):
        title: str = "none"
        findings: list[Finding] = []

    form = VerdictForm(Titled, several=False)
    assert form.strict
    assert form.schema["required"] == ["title", "findings"]
    assert form.schema["properties"]["title"] == {"type": "string"}
    assert form.schema["$defs"]["Finding"]["additionalProperties"] is False
    assert form.schema["$defs"]["Finding"]["required"] == ["category", "score", "words"]
    assert "default" not in json.dumps(form.schema)


@pytest.mark.parametrize("type", [Scores, tuple[int, str], list, dict[str, int]])
def test_a_schema_beyond_what_providers_can_is_not_called_strict(type: type) -> None:
    """Mappings, tuples, and anything at all."""
    assert not VerdictForm(type, several=False).strict


@pytest.mark.parametrize(
    ("given", "score"),
    [(0.5, 0.5), (7, 1.0), (-1, 0.0), ("0.25", 0.25), ("90 %", 0.9), ("150%", 1.0), (1, 1.0)],
)
def test_scores_are_taken_as_they_are_meant(given: object, score: float) -> None:
    """Beyond the ends is at the end; a text is read."""
    assert VERDICT.verdicts({"findings": [{"category": "hate", "score": given}]}, 1) == [
        Verdict(findings=[Finding(category="hate", score=score)])
    ]


@pytest.mark.parametrize("given", ["high", True, None, "nan", "", [1], "9/10"])
def test_what_is_no_score_is_refused(given: object) -> None:
    """A guess would be a verdict."""
    with pytest.raises(UnreadableError):
        read(VERDICT, {"findings": [{"category": "hate", "score": given}]})


class Spam(BaseModel):
    """One kind of a finding."""

    kind: Literal["spam"]
    links: int


class Scam(BaseModel):
    """Another, which may hold more of both."""

    kind: Literal["scam"]
    parts: list["Either"] = []


Either = Annotated[Spam | Scam, Field(discriminator="kind")]


class Nested(BaseModel):
    """Findings of several kinds, in each other."""

    found: list[Either]


def test_entries_of_several_kinds_and_in_each_other_are_told_apart() -> None:
    """The broken one is left out where it stands; the schema is one that providers take."""
    Scam.model_rebuild()
    form = VerdictForm(Nested, several=False)
    spam = {"kind": "spam", "links": 1}
    scam = {"kind": "scam", "parts": [spam, {"kind": "scam", "parts": [{"kind": "spam"}, spam]}]}
    reading = read(form, {"found": [{"kind": "secret"}, scam, {"kind": "spam", "links": "many"}]})
    assert reading.data == {"found": [{"kind": "scam", "parts": [spam, {"kind": "scam", "parts": [spam]}]}]}
    assert reading.dropped == (
        "found[0]: union_tag_invalid",
        "found[1].parts[1].parts[0]: missing",
        "found[2].links: int_parsing",
    )
    assert "secret" not in str(reading)
    assert form.strict
    assert "oneOf" not in json.dumps(form.schema)


def test_what_is_raised_about_an_answer_has_no_context_that_quotes_it() -> None:
    """Pydantic's errors show their input: a log with a traceback would hold what was judged."""
    with pytest.raises(UnreadableError) as unread:
        read(VERDICT, {"findings": "secret"})
    with pytest.raises(UnreadableError) as remembered:
        VERDICT.verdicts({"findings": "secret"}, 1)
    assert unread.value.__context__ is None
    assert remembered.value.__context__ is None
