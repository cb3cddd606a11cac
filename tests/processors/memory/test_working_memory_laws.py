"""What holds of working memories whatever is in them and whatever models send."""

import json

from hypothesis import given, strategies as st

from penstock.processors.memory._quoting import data_element, escape_tags
from penstock.processors.memory._working_records import RecordRefusal
from penstock.processors.memory._working_templates import parse_template
from penstock.processors.memory.working_memory_update import updated_text

NAMES = st.sampled_from(["a", "b", "c", "0", "1", "", "~", "a/b"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.lists(NAMES, max_size=4).map(lambda names: "".join(f"/{name}" for name in names)) | st.text(max_size=5)
CHANGES = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["set", "append", "delete"]), "path": PATHS}, optional={"value": VALUES}
    ),
    min_size=1,
    max_size=4,
)
MARKUP = st.lists(st.sampled_from(["<", "＜", "/", "working_memory_data", ">", "\u200b", "&lt;", "\n", "x"])).map(
    "".join
)
OBJECTS = parse_template("test", {"type": "object"})
TEXTS = parse_template("test", "# Template")


@given(MARKUP | st.text())
def test_no_text_opens_or_closes_an_element(text):
    """And escaping it once more changes nothing."""
    told = data_element("working_memory_data", text)
    assert told.count("<") == 2
    assert escape_tags(escape_tags(text)) == escape_tags(text)


@given(DOCUMENTS, CHANGES)
def test_changes_leave_an_object_or_what_was_there(document, changes):
    """Whatever is asked for; made twice where nothing is counted, they leave the same."""
    now = json.dumps(document)
    left = updated_text("fields", OBJECTS, now, {"changes": changes}, shared=True)
    assert isinstance(left, RecordRefusal) or left == "" or isinstance(json.loads(left), dict)
    if isinstance(left, str) and all(change["op"] == "append" for change in changes):
        assert updated_text("fields", OBJECTS, left, {"changes": changes}, shared=True) == left


@given(DOCUMENTS, DOCUMENTS)
def test_merging_leaves_an_object_that_holds_what_was_sent(document, patch):
    """But for what null deletes; merged twice it is as good as once."""
    left = updated_text("merge", OBJECTS, json.dumps(document), {"memory": patch}, shared=True)
    made = json.loads(left)
    for name, value in patch.items():
        if not isinstance(value, dict):
            assert made.get(name) == value
    again = updated_text("merge", OBJECTS, left, {"memory": patch}, shared=True)
    assert json.loads(again) == made


@given(st.lists(st.integers(0, 9), unique=True, max_size=6), st.randoms())
def test_appended_values_are_the_same_in_any_order(values, random):
    """So that it does not matter who comes first."""

    def appended(order):
        now = ""
        for value in order:
            change = {"op": "append", "path": "/a", "value": value}
            now = updated_text("fields", OBJECTS, now, {"changes": [change]}, shared=True)
        return sorted(json.loads(now or '{"a":[]}')["a"])

    assert appended(values) == appended(random.sample(values, len(values)))


@given(st.text(max_size=20), st.text(max_size=8), st.text(max_size=8))
def test_a_piece_is_added_or_corrected_and_nothing_else_is_lost(now, new, search):
    """An addition leaves what was there as its beginning."""
    left = updated_text("edit", TEXTS, now, {"new_memory": new}, shared=True)
    assert isinstance(left, RecordRefusal) or left.startswith(now)
    sent = {"new_memory": new, "search_string": search, "update_reason": "clarify-existing-memory"}
    left = updated_text("edit", TEXTS, now, sent, shared=True)
    if isinstance(left, str) and search in now:
        assert left == now.replace(search, new.strip("\n"), 1)
