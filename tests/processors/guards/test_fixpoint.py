"""A guard over its own output finds nothing new: a placeholder is no evidence, alone, in presets, and in streams."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from penstock import ModerationProcessor, PIIDetector, PromptInjectionDetector, RegexFilterProcessor, Workflow
from penstock.workflows.presets import hygiene, privacy, safety

if TYPE_CHECKING:
    from collections.abc import Callable

_FIELDS = {"phone": "phone", "card": "credit-card", "*.token": "api-key", "password": "the pass word", "n0": "name"}
GUARDS: dict[str, Callable[[], Workflow]] = {
    "mask": lambda: Workflow("w").then(PIIDetector()),
    "flat mask": lambda: Workflow("w").then(PIIDetector(preserve_format=False)),
    "placeholder": lambda: Workflow("w").then(PIIDetector(redaction_method="placeholder")),
    "hash": lambda: Workflow("w").then(PIIDetector(redaction_method="hash")),
    "token": lambda: Workflow("w").then(PIIDetector(redaction_method="token")),
    "remove": lambda: Workflow("w").then(PIIDetector(redaction_method="remove")),
    **{
        f"fields, {method}": lambda method=method: Workflow("w").then(
            PIIDetector(redaction_method=method, fields=_FIELDS)
        )
        for method in ("mask", "placeholder", "hash", "token")
    },
    "fields, rules": lambda: Workflow("w").then(
        RegexFilterProcessor(presets=["pii"], strategy="redact", fields=_FIELDS)
    ),
    "numbers as text": lambda: Workflow("w").then(PIIDetector(numbers="text")),
    "rules": lambda: Workflow("w").then(
        RegexFilterProcessor(presets=["pii", "secrets"], banned_words=["casket"], strategy="redact")
    ),
    "moderation": lambda: Workflow("w").then(ModerationProcessor(strategy="filter")),
    "injection": lambda: Workflow("w").then(PromptInjectionDetector(strategy="filter")),
    "hygiene": hygiene,
    "privacy": privacy,
    "safety": safety,
}

_LABELS = {
    "phone": "+1 404-555-0171",
    "mail": "ann.lee@corp-mail.org",
    "card": "4539 5787 6362 1486",
    "SSN": "536-90-4399",
    "IBAN": "DE89 3704 0044 0532 0130 00",
    "password": "Tr0ub4dor&3xyz",
    "token": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "date of birth": "1985-03-04",
    "ip": "81.2.69.142",
}
_OTHERS = ("order 4045550199", "5384020174", "id: 7012345678", "size 4294967310", "a casket", "20240611", "ref 8841-20")
_JOINTS = (". ", ", ", "; ", "\n", " ", " and ", " / ", ".\n\n", "\t", " - ", " (", ": ")


def written(dice: random.Random) -> str:
    """Roll a text: labelled values, and numbers without a label, joined in many ways; some of it JSON or a table."""
    labels = dice.sample(sorted(_LABELS), k=dice.randint(1, 3))
    values = [(label, _LABELS[label]) for label in labels]
    others = dice.sample(_OTHERS, k=dice.randint(1, 3))
    form = dice.randrange(4)
    if form == 0:
        fields = {**dict(values), **{f"n{at}": other for at, other in enumerate(others)}, "count": 4045550133}
        return json.dumps(fields, indent=dice.choice((None, 1)))
    if form == 1:
        head = ",".join([*labels, *(f"n{at}" for at in range(len(others)))])
        row = ",".join([*(value for _, value in values), *others])
        return f"{head}\n{row}\n{row}"
    pieces = [f"{label}{dice.choice((': ', ' ', '=', ' is '))}{value}" for label, value in values] + others
    dice.shuffle(pieces)
    text = pieces[0]
    for piece in pieces[1:]:
        text += dice.choice(_JOINTS) + piece
    return text + dice.choice((".", "", "\n"))


def whole(workflow: Workflow, text: str) -> str | None:
    """Return what a text becomes; None if it is blocked."""
    outcome = workflow.start_sync().process_output_result(text)
    return None if outcome.blocked else outcome.text


def streamed(workflow: Workflow, text: str, dice: random.Random) -> str | None:
    """Return what a stream becomes that is cut by dice; None if it is blocked."""
    pieces = []
    while text:
        at = dice.randint(1, 12)
        pieces.append(text[:at])
        text = text[at:]
    with workflow.start_sync().process_output_stream(pieces) as chunks:
        said = "".join(chunk.text for chunk in chunks)
    return None if chunks.outcome is None or chunks.outcome.blocked else said


@pytest.mark.parametrize("name", [name for name in GUARDS if name != "remove"])  # that leaves nothing to tell it by
def test_a_guard_over_its_own_output_finds_nothing_new(name: str) -> None:
    """Its output is left as it is, and a stream leaves the same."""
    workflow = GUARDS[name]()
    dice = random.Random(7)  # noqa: S311 - dice
    changed = 0
    for _ in range(10):
        text = written(dice)
        once = whole(workflow, text)
        if once is None:
            continue
        changed += once != text
        assert whole(workflow, once) == once
        assert streamed(workflow, text, dice) == once
        assert streamed(workflow, once, dice) == once
    assert changed > 2 or name in ("moderation", "injection")


@pytest.mark.parametrize(
    "name",
    [
        "mask",
        "placeholder",
        "hash",
        "token",
        "remove",
        "fields, mask",
        "fields, hash",
        "fields, token",
        "numbers as text",
        "rules",
        "hygiene",
        "privacy",
    ],
)
def test_a_value_that_was_guarded_is_left_as_it_is(name: str) -> None:
    """Its strings and numbers, keys included."""
    workflow = GUARDS[name]()
    dice = random.Random(11)  # noqa: S311 - dice
    for _ in range(15):
        fields = {label: _LABELS[label] for label in dice.sample(sorted(_LABELS), k=3)}
        note = written(dice) if name != "remove" else "none"
        value = {**fields, "note": note, "phone": 4045550171, "size": 4294967310, "order_id": 4045550199}
        once = workflow.start_sync().process_tool_result("look", value)
        assert not once.blocked
        again = workflow.start_sync().process_tool_result("look", once.result)
        assert again.result == once.result


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("date of birth=1985-03-04: 20240611", ("placeholder", "token", "hash", "mask")),
        ("password Tr0ub4dor&3xyz: phone=+1 404-555-0171", ("placeholder", "token", "mask")),
        ('{"phone": "+1 404-555-0171", "n0": "5384020174"}', ("placeholder", "token", "hash", "mask", "remove")),
        ('{"phone": 4045550171, "n0": "5384020174"}', ("placeholder", "token", "hash", "mask", "remove")),
        ("phone=+1 404-555-0171, 20240611", ("placeholder", "remove", "flat mask")),
        ("phone is +1 404-555-0171, 5384020174 and 20240611 and a casket.", ("placeholder", "remove", "flat mask")),
    ],
)
def test_what_stands_in_place_of_a_value_names_no_other(text: str, methods: tuple[str, ...]) -> None:
    """Neither the name of a type in brackets, nor stars, nor a label whose value is gone."""
    for name in methods:
        once = whole(GUARDS[name](), text)
        assert once is not None
        assert whole(GUARDS[name](), once) == once


@pytest.mark.parametrize("name", ["mask", "placeholder", "hash", "rules"])
@pytest.mark.parametrize(
    "text",
    [
        "ann.lee@corp-mail.org4539 5787 6362 1486",
        "see ann.lee@corp-mail.org4539578763621486, please",
        "AKIAQYLPMN5HFIQR7XYAAKIAZZTR4M2KQW8LPX3B",
        "key AKIAQYLPMN5HFIQR7XYAAKIAZZTR4M2KQW8LPX3B.",
    ],
)
def test_values_side_by_side_are_all_found_at_once(name: str, text: str) -> None:
    """The end of one may hide none of the next."""
    workflow = GUARDS[name]()
    once = whole(workflow, text)
    assert once is not None
    assert not any(value in once for value in ("4539 5787", "45395787", "corp-mail", "QYLPMN5", "ZZTR4M2"))
    assert whole(workflow, once) == once
    for seed in range(6):
        dice = random.Random(seed)  # noqa: S311 - dice
        assert streamed(workflow, text, dice) == once
