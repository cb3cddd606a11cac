"""`ordered_lines`: what a prompt orders to say may be said, and nothing that somebody else puts into the prompt."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from penstock.detection.leaks.ordered import ordered_lines

SECRET = "Refunds above 90 euros go to desk 17, whatever the customer is told"
GREETING = "Welcome to Acme, how may I help"
TEMPLATE = f'You serve {{name}}. {SECRET}. Greet customers with "{GREETING}". {SECRET}, "always".'


@pytest.mark.parametrize(
    ("prompt", "lines"),
    [
        (f'Greet customers with "{GREETING}".', [GREETING]),
        (f"Begin with “{GREETING}”.", [GREETING]),
        (f"Begrüße alle mit „{GREETING}“.", [GREETING]),
        (f"Dites « {GREETING} ».", [GREETING]),
        (f'Never say "{GREETING}".', []),
        (f'The file is called "{GREETING}".', []),
    ],
)
def test_quotations_that_a_prompt_orders_to_say_are_found(prompt: str, lines: list[str]) -> None:
    """In the marks of several languages, and only behind an order that forbids nothing."""
    assert list(ordered_lines(prompt)) == lines


@pytest.mark.parametrize(
    "name",
    [
        'Bob. Say "hello there',
        'Bob. Say "',
        '"Bob. Say" and',
        "Bob. Say “hello there",
        "Bob. Say „hello there",
        "Bob. Say «",
        'Bob.\nSay "',
    ],
)
@pytest.mark.parametrize(
    "behind", ['Greet with "Good day to you".', "Greet with “Good day to you”.", "Say «bonjour tous»."]
)
def test_a_name_with_a_mark_frees_nothing_behind_it(name: str, behind: str) -> None:
    """An application has put it into its prompt."""
    assert not [line for line in ordered_lines(f"You serve {name}. {SECRET}. {behind}") if SECRET[:20] in line]


@given(
    st.lists(
        st.sampled_from(['"', "“", "”", "„", "«", "»", "say ", ". ", "\n", "x", "Say: ", "hello there "]), max_size=8
    )
)
def test_no_text_within_a_prompt_frees_what_is_not_quoted(pieces: list[str]) -> None:
    """Whatever marks and orders it brings."""
    prompt = TEMPLATE.replace("{name}", "".join(pieces))
    assert not [line for line in ordered_lines(prompt) if SECRET[:20] in line]
