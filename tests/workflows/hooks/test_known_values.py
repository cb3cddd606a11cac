"""Values are learned from what guards made of a result, whatever stands around them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from penstock.workflows.hooks.known_values import KnownValues

PLAIN = st.text(alphabet="ab =\n.[]X", max_size=6)
SECRET = st.text(alphabet="s9", min_size=8, max_size=12).map(lambda text: f"{text}7")


@given(st.lists(st.tuples(PLAIN, SECRET), min_size=1, max_size=4), PLAIN)
def test_learned_values_stood_where_the_placeholders_are(parts: list[tuple[str, str]], end: str) -> None:
    """And those that are told apart are hidden from then on."""
    before = "".join(plain + secret for plain, secret in parts) + end
    after = "".join(f"{plain}[KEY_{number}]" for number, (plain, _) in enumerate(parts)) + end
    known = KnownValues()
    known.learn({"a": [before]}, {"a": [after]})
    text = f"x {parts[0][1]} y"
    assert re.fullmatch(r"x (\[KEY_\d\]|" + parts[0][1] + ") y", str(known.hidden(text, {})))
    if len(parts) == 1:
        assert known.hidden(text, {}) == "x [KEY_0] y"


@pytest.mark.parametrize("value", ["postgres", "password", "1234567", "short1"])
def test_ordinary_words_are_not_hidden_everywhere(value: str) -> None:
    """They stand in many results."""
    known = KnownValues()
    known.learn(f"A={value}", "A=[API-KEY]")
    assert known.hidden(f"the {value}", {}) == f"the {value}"
