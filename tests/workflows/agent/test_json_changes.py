"""What differs between two JSON values."""

import copy
import json
import math
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from penstock.workflows.agent.json_changes import changed_json, json_changes, same_json

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(0, 3)
    | st.sampled_from([-0.0, 0.0, 1.0, 2.5, math.nan, math.inf])
    | st.text("ab", max_size=2)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def written(value: Any) -> str:
    """Return a value as JSON."""
    return json.dumps(value, sort_keys=True)


@given(VALUES, VALUES)
@example([True, {"a": 1}], [1, {"a": True}])
@example({"a": [1, 2, 0.0]}, {"a": [1.0, 2, -0.0]})
def test_changes_make_one_value_the_other(before: Any, after: Any) -> None:
    """Whatever they are, as JSON, and without a change of the first."""
    kept = copy.deepcopy(before)
    made = changed_json(before, json_changes(before, after))
    assert written(made) == written(after)
    assert written(before) == written(kept)
    assert same_json(before, after) == (written(before) == written(after))


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ([1, 2], [1, 2, 3], {"from": 2, "drop": 0, "put": [3]}),
        ([1, 2, 3], [1, 4, 3], {"from": 1, "drop": 1, "put": [4]}),
        ([1, 1], [1], {"from": 1, "drop": 1, "put": []}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"in": {"a": {"in": {"c": {"to": 3}}}}}),
        ({"a": 1, "b": 1}, {"b": 1, "c": 1}, {"put": {"c": 1}, "gone": ["a"]}),
        ([1], [1], {}),
    ],
)
def test_changes_hold_only_what_differs(before: Any, after: Any, changes: Any) -> None:
    """So a longer conversation does not make them longer."""
    assert json_changes(before, after) == changes
