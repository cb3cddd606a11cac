"""What the owner knows: fields of JSON values and JSON text, and values that are allowed, for both detectors."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Agent, Message, OptionError, PIIDetector, RegexFilterProcessor, Workflow
from penstock.detection.places.allowed import KINDS
from penstock.detection.places.owner import owner_words
from penstock.engine.values.messages import ToolPart
from penstock.testing import ScriptedModel
from tests.detection.test_tables import FORMATS, _lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.text_guards.text_guard import TextGuard


def pii(**options: Any) -> TextGuard:
    """Return a detector with placeholders."""
    return PIIDetector(redaction_method="placeholder", **options)


def rules(**options: Any) -> TextGuard:
    """Return a filter with the same types."""
    return RegexFilterProcessor(presets=["pii", "secrets"], strategy="redact", **options)


GUARDS = pytest.mark.parametrize("make", [pii, rules])


def result(guard: TextGuard, value: Any) -> Any:
    """Return what a tool's result becomes."""
    return Workflow("w").then(guard).start_sync().process_tool_result("look", value).result


def streamed(guard: TextGuard, text: str, seed: int = 0) -> str:
    """Return what a stream becomes, cut by dice."""
    dice, pieces = random.Random(seed), []  # noqa: S311 - dice
    while text:
        at = dice.randrange(1, 9)
        pieces.append(text[:at])
        text = text[at:]
    with Workflow("w").then(guard).start_sync().process_output_stream(pieces) as chunks:
        return "".join(chunk.text for chunk in chunks)


VALUE = {
    "id": "ann@corp.org",
    "customer": {"name": "Ann Lee", "phone": "12 34", "pin": 7654321, "note": "write to ann@corp.org"},
    "items": [{"cursor": "bob@corp.org", "mail": "bob@corp.org"}, {"page": {"cursor": {"next": "eve@corp.org"}}}],
}
FIELDS = {"id": None, "customer.name": "name", "customer.phone": "phone", "customer.pin": "pin", "*.cursor": None}
LEFT = {
    "id": "ann@corp.org",
    "customer": {"name": "[NAME]", "phone": "[PHONE]", "pin": None, "note": "write to [EMAIL]"},
    "items": [{"cursor": "bob@corp.org", "mail": "[EMAIL]"}, {"page": {"cursor": {"next": "eve@corp.org"}}}],
}


def plain(value: Any) -> Any:
    """Return a frozen value as JSON would."""
    return json.loads(json.dumps(value))


@GUARDS
def test_a_field_says_what_its_value_is(make: Callable[..., TextGuard]) -> None:
    """A type makes the whole value a finding; None makes nothing in it one. Others are searched as ever."""
    assert plain(result(make(fields=FIELDS), VALUE)) == LEFT


@GUARDS
def test_a_field_of_json_text_is_the_same_whole_and_streamed(make: Callable[..., TextGuard]) -> None:
    """In a string of a value, in an answer, and in one that is streamed."""
    text = json.dumps(VALUE, indent=1)
    guard = make(fields=FIELDS)
    assert json.loads(result(guard, {"text": text})["text"]) == LEFT
    for seed in range(8):
        assert json.loads(streamed(guard, text, seed)) == LEFT


@pytest.mark.parametrize(
    ("fields", "hidden"),
    [
        ({"a.b": "x"}, ["a.b"]),
        ({"a.b": None, "a": "x"}, ["a.c"]),
        ({"*": "x", "a.*": None}, ["b"]),
        ({"*.b": "x"}, ["a.b", "b"]),
        ({"a.*.b": "x"}, ["a.b"]),
        ({"B": "x"}, ["b"]),
    ],
)
def test_the_most_precise_path_counts(fields: dict[str, str | None], hidden: list[str]) -> None:
    """``*`` stands for any number of steps, letters may be small or capital, and an object stands for all in it."""
    left = result(pii(fields=fields), {"a": {"b": "1", "c": ["2", {"d": "3"}]}, "b": "4"})
    found = [
        name
        for name, value in (("a.b", left["a"]["b"]), ("a.c", left["a"]["c"][0]), ("b", left["b"]))
        if value == "[X]"
    ]
    assert found == hidden


ROWS = [
    ["id", "telefon", "page.cursor", "Name", "note", "address"],
    ["ann@corp.org", "12 34", "bob@corp.org", "Ann Lee", "", "x" * 90],
    ["4", "-", "5", "Bo", "mail bob@corp.org", "Rue 4"],
]
COLUMNS = {"id": None, "Telefon": "phone", "*.cursor": None, "name": "name", "address": "address"}
CELLS = {"12 34": "[PHONE]", "Ann Lee": "[NAME]", "Bo": "[NAME]", "mail bob@corp.org": "mail [EMAIL]"}
CELLS |= {"x" * 90: "[ADDRESS]", "Rue 4": "[ADDRESS]"}


def table(form: str, cells: dict[str, str]) -> str:
    """Return the rows in a format, with some cells replaced, not padded anew."""
    return "".join(cells.get(part, part) for line in _lines(form, ROWS) for part in line)


@GUARDS
@pytest.mark.parametrize("form", FORMATS)
def test_a_field_is_a_column_of_a_table(make: Callable[..., TextGuard], form: str) -> None:
    """In each format, whole and streamed, alone and below a key; a drawn line and an empty cell are no values."""
    guard = make(fields=COLUMNS)
    text = f"Found:\n\n{table(form, {})}"
    left = f"Found:\n\n{table(form, CELLS)}"
    assert Workflow("w").then(guard).check_sync(text).text == left
    for seed in range(6):
        assert streamed(guard, text, seed) == left
    below = make(fields={f"*.rows.{path}": type for path, type in COLUMNS.items()})
    assert result(below, {"rows": text, "other": text}) == {"rows": left, "other": table_without_fields(make, text)}


def table_without_fields(make: Callable[..., TextGuard], text: str) -> str:
    """Return what a table becomes where no field describes it."""
    return str(result(make(), {"other": text})["other"])


@GUARDS
def test_a_column_of_no_findings_holds_for_rows_that_fit(make: Callable[..., TextGuard]) -> None:
    """A row with more or fewer cells than its header may have others there; a type hides them all the same."""
    guard = make(fields={"id": None, "name": "name"})
    text = "id,name,size\nann@corp.org,Ann,4\nx, bob@corp.org,Bo,5\nbob@corp.org,Bo\n\nid is bob@corp.org\n"
    left = "id,name,size\nann@corp.org,[NAME],4\nx, [NAME],Bo,5\n[EMAIL],[NAME]\n\nid is [EMAIL]\n"
    assert Workflow("w").then(guard).check_sync(text).text == left
    for seed in range(6):
        assert streamed(guard, text, seed) == left


ALLOWED = [
    (["ann@corp.org"], "ann@corp.org", "bob@corp.org"),
    ([re.compile(r"\w+@corp\.org")], "ann@corp.org", "ann@corp.org.uk"),
    ([r"/\w+@corp\.org/"], "ann@corp.org", "ann@corp.com"),
    ([lambda text: text.startswith("ann")], "ann@corp.org", "bob@corp.org"),
    (["corp.org"], "ann@mail.corp.org", "ann@corp.com"),
    (["example-domain"], "ann@example.org", "ann@example.dev"),
    (["no-reply"], "no-reply@corp.org", "jo@corp.org"),
    (["test-card"], "4242 4242 4242 4242", "4539 5787 6362 1486"),
]


@GUARDS
@pytest.mark.parametrize(("allow", "passes", "hidden"), ALLOWED)
def test_what_is_allowed_passes_and_is_counted(
    make: Callable[..., TextGuard], allow: list[Any], passes: str, hidden: str
) -> None:
    """The record has the number by type, and no text."""
    guard = make(allow=allow)
    text = f"One is {passes} and one is {hidden} here."
    run = Workflow("w").then(guard).start_sync(records=True)
    outcome = run.process_input(text)
    assert passes in outcome.text
    assert hidden not in outcome.text
    assert streamed(guard, text) == outcome.text
    counted = run.records[0].details.get("allowed")
    assert counted is None or sum(counted.values()) == 1  # domains are no findings to begin with
    assert passes not in repr(run.records)


@pytest.mark.parametrize(
    ("kind", "fits", "differs"),
    [
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400"),
        ("git-sha", "da39a3ee5e6b4b0d3255bfef95601890afd80709", "da39a3ee5e6b4b0d3255bfef95601890afd8070"),
        ("digest", "sha256:" + "0f" * 32, "sha256:" + "0f" * 31),
        ("private-ip", "10.0.0.7", "8.8.8.8"),
        ("private-ip", "fd00::1", "2606:4700::1111"),
        ("fictional-phone", "(212) 555-0171", "(212) 555-2171"),
        ("unix-time", "1732850000", "7328500001"),
        ("version", "10.4.0.21", "10"),
        ("object-id", "507f1f77bcf86cd799439011", "507f1f77bcf86cd79943901"),
        ("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FA"),
        ("sri-hash", "sha384-" + "a" * 64, "sha384-"),
        ("example-domain", "https://www.example.com/a", "https://www.example.co/a"),
    ],
)
def test_a_kind_is_told_by_the_whole_value(kind: str, fits: str, differs: str) -> None:
    """Its form must fit to the end."""
    assert KINDS[kind](fits)
    assert not KINDS[kind](differs)


@pytest.mark.parametrize(
    "link",
    [
        "https://corp.org:x@evil.com/a",
        "https://corp.org@evil.com/a",
        "https://corp.org:80@evil.com",
        "https://corp.org\\@evil.com/a",
        "https://corp.org.evil.com/a",
        "https://evil.com/corp.org",
        "https://evil.com?@corp.org",
        "https://evil.com;.corp.org/",
        "https://evil.com%2f.corp.org/",
    ],
)
def test_a_link_is_at_the_host_that_a_browser_goes_to(link: str) -> None:
    """A user's name and a password before a host, or a path behind it, are no domain; a backslash ends a link."""
    words = owner_words("Guard", {}, ["corp.org"])
    assert not words.allows("url", link)
    guard = PIIDetector(detection_types=["url"], allow=["corp.org"], redaction_method="placeholder")
    assert ("[URL]" in Workflow("w").then(guard).check_sync(f"see {link} now").text) is ("\\" not in link)
    assert words.allows("url", "https://www.corp.org:8080/a?b=c@d#e")
    assert words.allows("email", "ann@corp.org")


@pytest.mark.parametrize("fields", [["a"], {"": "x"}, {"a..b": None}, {"a": 3}, {3: None}, {"a": " "}])
def test_wrong_fields_are_refused(fields: Any) -> None:
    """The error names the option."""
    with pytest.raises(OptionError, match="fields"):
        owner_words("Guard", fields, ())


async def test_fields_speak_of_values_alone() -> None:
    """The name of a tool, and what else belongs to a part or a chunk itself, stands under no path."""

    def look() -> dict[str, str]:
        """Return a customer."""
        return {"name": "Ada", "note": "x"}

    model = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "look", "args": {}}]}, "done"])
    guard = pii(fields={"*.name": "email"})
    result = await Agent(model, tools=[look], processors=[guard]).generate("Go on.")
    assert result.status == "success"
    [part] = model.requests[1].messages[-1].parts
    assert getattr(part, "result", None) == {"name": "[EMAIL]", "note": "x"}


@GUARDS
def test_a_field_with_a_type_is_read_however_small_its_number_is(make: Callable[..., TextGuard]) -> None:
    """A PIN of four digits is no phone, but its owner knows what it is."""
    guard = make(fields={"account.pin": "password"})
    assert result(guard, {"account": {"pin": 4821, "visits": 4821}}) == {"account": {"pin": None, "visits": 4821}}
    stage = (
        Workflow("w")
        .then(guard)
        .check_sync([Message.assistant([ToolPart("c", "look", {}, "result", {"account": {"pin": 7}})])])
    )
    assert stage.messages[0].parts[0].result == {"account": {"pin": None}}  # type: ignore[union-attr]
