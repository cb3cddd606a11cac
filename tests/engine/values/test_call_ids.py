"""`CallIds`: each tool call of an answer has an id of its own, and so have its pieces and its results."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from penstock import Chunk
from penstock.engine.values.call_ids import CallIds


def piece(what: str, id: str = "x", text: str = "", **payload: Any) -> Chunk:
    """Return a chunk of a call's arguments while they are written."""
    return Chunk(f"tool-input-{what}", text, id, payload)


def call(id: Any = "x", name: str = "f", **arguments: Any) -> Chunk:
    """Return a whole call."""
    return Chunk("tool-call", id=str(id), payload={"call_id": id, "name": name, "arguments": arguments})


def result(id: str = "x", name: str = "", value: Any = None) -> Chunk:
    """Return a result of a provider."""
    return Chunk("tool-result", id=id, payload={"call_id": id, "result": value, **({"name": name} if name else {})})


def ids(*chunks: Chunk, taken: tuple[str, ...] = ()) -> list[str]:
    """Return the ids of chunks after each call was given its own; the payload says the same."""
    own = CallIds(lambda: taken)
    made = [own.own(chunk) for chunk in chunks]
    assert all(chunk.payload.get("call_id", chunk.id) == chunk.id for chunk in made)
    return [chunk.id for chunk in made]


def test_the_first_call_keeps_its_id_and_later_ones_get_others() -> None:
    """Whatever they call."""
    assert ids(call(), call(), call(name="g")) == ["x", "x-2", "x-3"]


def test_an_id_that_is_free_is_never_given_to_another_call() -> None:
    """A made id may be what a later call is sent with."""
    assert ids(call("x"), call("x"), call("x-2")) == ["x", "x-2", "x-2-2"]


def test_ids_of_the_conversation_are_taken() -> None:
    """Servers that count from 0 in each answer."""
    assert ids(call("call_0"), call("call_1"), taken=("call_0",)) == ["call_0-2", "call_1"]


def test_a_call_without_an_id_gets_one() -> None:
    """Blanks are none, and what is no text becomes one."""
    assert ids(call(""), call("  "), call(7)) == ["call-1", "call-2", "7"]


def test_an_id_is_found_under_each_of_its_names() -> None:
    """And changed where it stands."""
    own = CallIds()
    first = Chunk("tool-call", payload={"toolCallId": "x", "toolName": "f", "args": {}})
    assert own.own(first) is first
    assert own.own(first).payload["toolCallId"] == "x-2"


def test_pieces_belong_to_the_call_that_began_last_and_whole_calls_come_in_that_order() -> None:
    """One behind the other, or all whole calls at the end, as in OpenAI's streams."""
    one = [piece("start", call_id="x"), piece("delta", text="{}"), piece("end")]
    assert ids(*one, call(), *one, call()) == ["x"] * 4 + ["x-2"] * 4
    assert ids(*one, *one, call(), call()) == ["x"] * 3 + ["x-2"] * 3 + ["x", "x-2"]
    assert ids(*one[:2], *one[:2], one[2], call(), one[2], call()) == ["x", "x", "x-2", "x-2", "x", "x", "x-2", "x-2"]


def test_pieces_without_an_id_belong_to_the_call_without_an_id() -> None:
    """They are told apart from the next ones."""
    one = [piece("start", ""), piece("delta", "", "{}"), piece("end", ""), call("")]
    assert ids(*one, *one) == ["call-1"] * 4 + ["call-2"] * 4


def test_results_of_a_provider_belong_to_the_first_call_without_one() -> None:
    """The last one's result may come again: it replaces the first."""
    assert ids(call(), call(), result(), result(), result()) == ["x", "x-2", "x", "x-2", "x-2"]
    assert ids(call(), result(), call(), result()) == ["x", "x", "x-2", "x-2"]


def test_a_result_belongs_to_the_call_of_its_tool() -> None:
    """A result of another tool's is not taken for the answer of a call that the agent has to run."""
    assert ids(call(name="f"), call(name="g"), result(name="g"), result(name="f")) == ["x", "x-2", "x-2", "x"]
    assert ids(call(name="f"), result(name="g")) == ["x", "x-2"]


def test_a_result_of_an_earlier_answer_keeps_its_id_and_no_later_call_gets_it() -> None:
    """A provider may send it an answer later."""
    assert ids(result("old"), call("old"), taken=("old",)) == ["old", "old-2"]
    assert ids(result("new"), call("new")) == ["new", "new-2"]


def test_chunks_of_no_call_and_calls_with_ids_of_their_own_are_the_same_objects() -> None:
    """Nothing is copied where nothing has to change."""
    chunks = [Chunk("text-delta", "hi", "x"), piece("start"), piece("end"), call(), result(), call("y")]
    own = CallIds()
    assert all(own.own(chunk) is chunk for chunk in chunks)


@given(st.lists(st.tuples(st.sampled_from(["", "a", "a-2", "b", " "]), st.sampled_from("fg")), max_size=20))
def test_all_calls_of_an_answer_have_ids_that_differ(sent: list[tuple[str, str]]) -> None:
    """And to do it again changes nothing."""
    own, again = CallIds(lambda: ("b",)), CallIds(lambda: ("b",))
    made = [own.own(call(id, name)) for id, name in sent]
    assert len({chunk.id for chunk in made} | {"b"}) == len(sent) + 1
    assert [again.own(chunk) for chunk in made] == made


def test_many_calls_with_one_id_are_numbered_without_counting_anew() -> None:
    """Each new id is tried once or twice, however many there are."""
    tried = 0

    class Counted(set[str]):
        def __contains__(self, id: object) -> bool:
            nonlocal tried
            tried += 1
            return super().__contains__(id)

    own = CallIds()
    own._used = Counted()
    for _ in range(1000):
        own.own(call())
    assert tried <= 2000
