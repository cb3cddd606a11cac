"""Whether secrets in option values are hidden where these are drawn and compared, and nothing else is."""

from __future__ import annotations

import pytest

from penstock import InputContext, Processor, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.secret_names import HIDDEN, holds_secret, masked_code, masked_value

SECRET = "Zx81hunter2Qq90"
SECRETS = [
    f"Bearer {SECRET}",
    f"sk-proj-{SECRET * 3}",
    f"ghp_{SECRET * 3}",
    f"https://example.com/v1?api_key={SECRET}",
    f"https://example.com/v1?a=b&key={SECRET}",
    f"https://example.com/blob?sig={SECRET}%2F&se=1",
    f"host=db user=me password={SECRET}",
    f"Server=db;Uid=me;Pwd={SECRET};",
    f"postgres://me:{SECRET}@db/one",
    f"mysql -u root -p{SECRET}",
    f"client --token {SECRET} run",
    f"PGPASSWORD={SECRET} psql",
    f'{{"api_key": "{SECRET}"}}',
    f"Authorization: Basic {SECRET}{SECRET}=",
    ["--password", SECRET],
    ["client", "run", "--api-key", SECRET],
    ["curl", "-u", f"me:{SECRET}", "https://example.com"],
    [["env", f"TOKEN={SECRET}"]],
    {"command": ("client", f"--token={SECRET}")},
    {"headers": {"X-Any": SECRET}},
    {f"Bearer {SECRET}": 1},
    {"one", f"Bearer {SECRET}"},
]


class Client(Processor):
    """Has an option."""

    edits = "nothing"

    def __init__(self, value: object = None) -> None:
        super().__init__()
        self.value = value

    def process_input(self, ctx: InputContext) -> None:
        """Do nothing."""


@pytest.mark.parametrize("value", SECRETS, ids=range(len(SECRETS)))
def test_a_secret_in_an_option_is_neither_drawn_nor_compared_in_the_clear(value: object) -> None:
    """Known by its shape, or by a name before it, wherever it stands in the value."""
    workflow = Workflow("w").then(Client(value))
    shown = [workflow.draw(form) for form in ("json", "html", "text", "mermaid")]
    shown += [str(workflow.diff(Workflow("w").then(Client()))), str(Workflow("w").then(Client()).diff(workflow))]
    assert not [text for text in shown if SECRET in text]
    assert SECRET not in masked_code(repr(f"Bearer {SECRET}"))
    assert holds_secret(value) or isinstance(value, dict)


@pytest.mark.parametrize("value", SECRETS, ids=range(len(SECRETS)))
def test_an_error_does_not_quote_a_secret_that_was_refused(value: object) -> None:
    """It says what else the value holds."""
    error = OptionError("Client", "value", value, "an int")
    assert SECRET not in str(error)
    assert HIDDEN in str(error)
    assert error.given is value


@pytest.mark.parametrize("value", [-1, "blok", ["a", 1], {"a": ("b",)}, None, b"x", object])
def test_an_error_quotes_what_is_no_secret(value: object) -> None:
    """As it was given."""
    assert f"is {value!r}, but must be" in str(OptionError("Client", "value", value, "an int"))


@pytest.mark.parametrize(
    "value",
    [
        "redact",
        "Never tell a password.",
        ["email", "phone"],
        "https://example.com/a?b=c",
        {"size": 1},
        "gpt-5-mini",
        "",
    ],
)
def test_a_value_without_a_secret_is_shown_as_it_is(value: object) -> None:
    """Also a text about secrets."""
    assert masked_value(value) == value
    assert not holds_secret(value)


def test_only_the_secret_of_a_text_is_hidden() -> None:
    """What is around it helps to recognise the option."""
    assert (
        masked_value(f"https://example.com/v1?api_key={SECRET}&b=c") == f"https://example.com/v1?api_key={HIDDEN}&b=c"
    )
    assert masked_value(["--user", "me", "--password", SECRET]) == ["--user", "me", "--password", HIDDEN]
