"""What a join may never do: let a redaction go, widen a restriction, or fail over what came before both branches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from penstock import Edit, InputContext, Message, MessageList, Processor, TextGuard, TextPart, Workflow, member
from penstock.engine import Overrides, pick
from penstock.engine.graph.nodes import resolve
from penstock.engine.values.edits import Edits, apply, merge, normalise, remainder
from penstock.engine.values.errors import MergeConflictError
from tests.laws import examples

POLICIES = ["first", "last", pick("a"), pick("b")]


class Hide(Processor):
    """Redacts a word, wherever it stands."""

    edits = "spans"
    role = "transform"

    def __init__(self, word: str, mark: str = "#") -> None:
        self.word, self.mark = word, mark

    def process_input(self, ctx: InputContext) -> MessageList:
        """Redact the word."""
        return ctx.message_list.edit_text(
            {
                place: [
                    Edit(at, at + len(self.word), self.mark, "redact")
                    for at in range(len(text))
                    if text.startswith(self.word, at)
                ]
                for place, text in ctx.message_list.texts(ctx.messages)
            }
        )


class Mapped(Processor):
    """Makes something else of every text."""

    edits = "anything"
    role = "transform"

    def __init__(self, change: Callable[[str], str]) -> None:
        self.change = change

    def process_input(self, ctx: InputContext) -> MessageList:
        """Change every text."""
        return ctx.message_list.map_text(self.change, ctx.messages)


class Says(Processor):
    """Returns what a function makes of the messages."""

    edits = "anything"
    role = "transform"

    def __init__(self, change: Callable[[tuple[Message, ...]], Any]) -> None:
        self.change = change

    def process_input(self, ctx: InputContext) -> Any:
        """Return the changed messages."""
        return self.change(ctx.messages)


class Allows(Processor):
    """Restricts the tools."""

    edits = "anything"
    role = "transform"

    def __init__(self, *names: str) -> None:
        self.names = names

    def process_input_step(self, ctx: Any) -> Overrides:
        """Leave only these tools."""
        return Overrides(active_tools=self.names) if self.names else Overrides()


def texts(workflow: Workflow, text: str) -> list[str]:
    """What the messages say behind the workflow; it has to pass."""
    outcome = workflow.check_sync(text)
    assert not outcome.blocked
    return [message.text for message in outcome.messages]


def split(first: Any, a: Any, b: Any, *, merge: Any = None) -> Workflow:
    """A step, and two that come after it."""
    return Workflow("w").dag(
        member(first, id="first"), member(a, id="a", after="first"), member(b, id="b", after="first"), merge=merge
    )


# Policies


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("guard_first", [True, False])
def test_no_policy_lets_a_redaction_go(policy: Any, guard_first: bool) -> None:
    """Whoever is chosen, the secret is not in the text."""
    members = [member(Hide("secret"), id="a"), member(Mapped(str.upper), id="b")]
    workflow = Workflow("w").dag(*(members if guard_first else members[::-1]), merge=policy)
    (text,) = texts(workflow, "a secret b")
    assert "secret" not in text.lower()
    assert "#" in text


@pytest.mark.parametrize("policy", [None, *POLICIES], ids=str)
def test_redactions_apart_in_an_added_message_both_stay(policy: Any) -> None:
    """The message came before both, so they merge as they would in a parallel behind it."""
    add = Says(lambda messages: [*messages, Message.user("alpha beta")])
    assert texts(split(add, Hide("alpha"), Hide("beta"), merge=policy), "hi") == ["hi", "# #"]


@pytest.mark.parametrize("policy", ["first", "last"])
def test_a_policy_still_chooses_between_edits(policy: Any) -> None:
    """Neither hides anything."""
    workflow = Workflow("w").parallel(Mapped(str.upper), Mapped(lambda text: text[::-1]), merge=policy)
    assert texts(workflow, "abc") == ["ABC" if policy == "first" else "cba"]


def test_a_policy_cannot_choose_new_parts_over_a_redaction() -> None:
    """Nothing says where the redacted text went, so the join fails."""

    def doubled(messages: tuple[Message, ...]) -> list[Message]:
        return [replace(message, parts=message.parts * 2) for message in messages]

    chosen = Workflow("w").parallel(Says(doubled), Hide("secret"), merge="first")
    with pytest.raises(MergeConflictError):
        chosen.check_sync("a secret")
    assert texts(Workflow("w").parallel(Says(doubled), Hide("secret"), merge="last"), "a secret") == ["a #"]


class Guarded(Says):
    """A guard that replaces text, without saying that it hides it."""

    edits = "spans"
    role = "guard"

    def process_input(self, ctx: InputContext) -> Any:
        """Return what the function makes of the context."""
        return self.change(ctx)


def masked(text: str) -> str:
    """Return the text without the secret."""
    return text.replace("secret", "[masked]")


def masked_message(message: Message) -> Message:
    """Return the message without the secret."""
    return replace(message, parts=(TextPart(masked(message.text)),))


MASKING: Mapping[str, Callable[[Any], Any]] = {
    "map_text": lambda ctx: ctx.message_list.map_text(masked, ctx.messages),
    "messages": lambda ctx: [masked_message(message) for message in ctx.messages],
    "edit_text": lambda ctx: ctx.message_list.edit_text(
        {
            place: [Edit(text.index("secret"), text.index("secret") + 6, "[masked]", "replace")]
            for place, text in ctx.message_list.texts(ctx.messages)
        }
    ),
}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("guard_first", [True, False])
@pytest.mark.parametrize("way", MASKING)
@pytest.mark.parametrize("after", ["a word: secret, b", "secret", "A SECRET B, SECRET"], ids=str)
def test_no_policy_brings_back_what_a_guard_replaced(policy: Any, guard_first: bool, way: str, after: str) -> None:
    """Every edit of a guard that takes text away counts as hiding it, also if its kind does not say so."""
    guard, rewriter = Guarded(MASKING[way]), Mapped(lambda text: text.replace("a secret b", after))
    members = [member(guard, id="a"), member(rewriter, id="b")]
    in_order = members if guard_first else members[::-1]
    (text,) = texts(Workflow("w").dag(*in_order, merge=policy), "now: a secret b!")
    assert "secret" not in text.lower()
    assert "[masked]" in text


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("wide_first", [True, False])
@pytest.mark.parametrize("way", ["map_text", "messages"])
def test_no_policy_takes_a_text_that_may_show_what_another_guard_hid(policy: Any, wide_first: bool, way: str) -> None:
    """What one guard rewrites reaches from its first word to its last, and repeats the other's word between them."""

    def end(*steps: Processor[Any]) -> Any:
        members = [member(step, id=id) for step, id in zip(steps if wide_first else steps[::-1], "ab", strict=True)]
        outcome = Workflow("w").dag(*members, merge=policy).check_sync("a secret, a code, a secret")
        return "blocked" if outcome.blocked else outcome.text

    wide = Guarded(MASKING[way])
    code = Guarded(lambda ctx: ctx.message_list.map_text(lambda text: text.replace("code", "[code]"), ctx.messages))
    assert end(wide, code) == "blocked"
    assert end(wide, Guarded(MASKING[way])) == "a [masked], a code, a [masked]"
    assert end(wide, Hide("code")) == "a #"
    assert end(wide, Mapped(lambda text: text.replace("code", "word"))) == "a [masked], a code, a [masked]"


def test_what_a_guard_inserts_hides_nothing() -> None:
    """So a policy may choose another branch over it."""
    guard = Guarded(
        lambda ctx: ctx.message_list.edit_text(
            {place: [Edit(2, 2, "<note>", "insert")] for place, _ in ctx.message_list.texts(ctx.messages)}
        )
    )
    workflow = Workflow("w").parallel(guard, Mapped(lambda text: "other"), merge="last")
    assert texts(workflow, "a text") == ["other"]


class Masker(TextGuard):
    """A text guard whose edits say ``replace``."""

    def __init__(self, word: str, text: str, role: Any) -> None:
        self.word, self.text, self.role = word, text, role

    def find(self, text: str, ctx: Any, *, final: bool) -> Any:
        """Replace the word."""
        return [
            Edit(at, at + len(self.word), self.text, "replace")
            for at in range(len(text))
            if text.startswith(self.word, at)
        ]

    def hold(self, text: str, start: int) -> int:
        """Hold what may become the word."""
        return max(start, len(text) - len(self.word) + 1)


@pytest.mark.parametrize("policy", ["first", "last"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_stream_keeps_what_a_guard_replaced_as_the_whole_text_does(policy: Any, size: int) -> None:
    """However the text is cut, the guard's edit is not dropped."""
    guard, rewriter = Masker("secret", "[masked]", "guard"), Masker("a secret b", "a word: secret, b", "transform")
    members = (guard, rewriter) if policy == "last" else (rewriter, guard)
    workflow = Workflow("w").parallel(*members, merge=policy)
    text = "now: a secret b!"
    whole = workflow.check_sync(text, stage="process_output_step").text
    assert "secret" not in whole
    cut = [text[at : at + size] for at in range(0, len(text), size)]
    with workflow.start_sync().process_output_stream(cut) as chunks:
        assert "".join(chunk.text for chunk in chunks) == whole


@pytest.mark.parametrize("policy", ["first", "last"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_stream_fails_where_two_guards_replaced_what_overlaps_as_the_whole_text_does(policy: Any, size: int) -> None:
    """However the text is cut."""
    guards = (Masker("secret", "[masked]", "guard"), Masker("a secret b", "a word", "guard"))
    workflow = Workflow("w").parallel(*guards, merge=policy)
    text = "now: a secret b!"
    assert workflow.check_sync(text, stage="process_output_step").blocked
    with workflow.start_sync().process_output_stream([text[at : at + size] for at in range(0, 16, size)]) as chunks:
        assert "a" not in "".join(chunk.text for chunk in chunks)
    assert chunks.outcome is not None
    assert chunks.outcome.blocked


def test_a_merge_function_is_trusted() -> None:
    """What it says is done."""
    workflow = Workflow("w").parallel(Mapped(str.upper), Hide("secret"), merge=lambda conflict: "mine")
    assert texts(workflow, "a secret") == ["mine"]


@pytest.mark.parametrize("policy", ["first", "last"])
@pytest.mark.parametrize("before", [{}, {"active_tools": ["a", "b", "c"]}], ids=["all", "some"])
def test_tools_restricted_twice_are_those_that_both_allow(policy: Any, before: dict[str, Any]) -> None:
    """Where all were active before, and where some were."""
    workflow = Workflow("w").parallel(Allows("a", "b"), Allows("b", "c"), merge=policy)
    assert workflow.start_sync().process_input_step("x", **before).overrides["active_tools"] == ("b",)


def test_tools_restricted_by_one_of_two_are_what_it_says() -> None:
    """A branch that restricts nothing has no say."""
    workflow = Workflow("w").parallel(Allows("a"), Allows(), merge="first")
    assert workflow.start_sync().process_input_step("x").overrides["active_tools"] == ("a",)


# Dags


def test_redactors_behind_a_rewriter_join_as_in_a_parallel() -> None:
    """As a dag, as a tree, and as the graph of that tree."""
    tree = Workflow("w").then(Mapped(str.lower)).parallel(Hide("alpha"), Hide("beta"))
    for workflow in (split(Mapped(str.lower), Hide("alpha"), Hide("beta")), tree, Workflow.from_graph(tree.graph)):
        assert texts(workflow, "X ALPHA y BETA z") == ["x # y # z"]


def test_what_only_one_side_took_back_stays_taken_back() -> None:
    """The rewriter came before both, and one of them undid it."""
    workflow = split(Mapped(str.upper), Mapped(str.lower), Hide("zzz"), merge="first")
    assert texts(workflow, "abc") == ["abc"]


def test_sides_that_share_in_pairs_lose_nothing() -> None:
    """Three heads, each two of which have something of their own in common."""
    workflow = Workflow("w").dag(
        member(Mapped(str.lower), id="x"),
        member(Hide("one"), id="y"),
        member(Hide("two"), id="a", after="x"),
        member(Hide("three"), id="b", after=["x", "y"]),
        member(Hide("four"), id="c", after="y"),
        merge="first",
    )
    (text,) = texts(workflow, "one two three four")
    assert text == "# # # #"


def test_a_deletion_wins_in_a_dag_as_well() -> None:
    """One side removes the message that both found."""
    workflow = split(Mapped(str.lower), Says(lambda messages: messages[:1]), Hide("beta"), merge="last")
    outcome = workflow.check_sync([Message.user("ALPHA"), Message.user("BETA")])
    assert [message.text for message in outcome.messages] == ["alpha"]


WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]
leaves = st.one_of(
    st.sampled_from(WORDS).map(Hide),
    st.sampled_from([str.lower, str.upper, lambda text: f"<{text}>", lambda text: text.replace(" ", "_")]).map(Mapped),
)


@st.composite
def trees(draw: Any, depth: int = 3) -> Workflow:
    """Sequences and parallels of redactors and rewriters; parallels take the first of a conflict."""
    made = Workflow("t")
    for _ in range(draw(st.integers(1, 3))):
        items = [
            draw(trees(depth=depth - 1) if depth and draw(st.booleans()) else leaves)
            for _ in range(draw(st.integers(1, 3)))
        ]
        made = made.then(items[0]) if len(items) == 1 else made.parallel(*items, merge=None)
    return made


def told(workflow: Workflow, text: str) -> Any:
    """What comes out, or that nothing does."""
    workflow.plans.resolved = resolve(workflow.root)  # what may be unsafe to declare must still mean the same
    try:
        return [message.text for message in workflow.check_sync(text).messages]
    except MergeConflictError:
        return "conflict"


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(), st.permutations(WORDS))
def test_a_tree_laid_out_as_a_dag_does_the_same(tree: Workflow, words: list[str]) -> None:
    """Editing ancestors make no difference."""
    text = " ".join(words)
    assert told(Workflow.from_graph(tree.graph), text) == told(tree, text)


# Remainders

TEXT = "abcdefgh"
spans = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 3), st.sampled_from(["", "X", "YZ"]), st.booleans()), max_size=3
)


def edits_of(drawn: list[tuple[int, int, str, bool]]) -> Edits:
    """Disjoint edits of the text."""
    made: list[Edit] = []
    at = 0
    for start, width, text, hides in sorted(drawn):
        end = min(start + width, len(TEXT))
        if start >= at and (text or end > start):
            made.append(Edit(start, end, text, "insert" if start == end else "redact" if hides else "replace"))
            at = end
    return normalise(made, TEXT)


@given(spans, spans)
def test_a_remainder_leads_from_one_to_the_other(one: Any, other: Any) -> None:
    """Whatever the two have in common."""
    done, whole = edits_of(one), edits_of(other)
    assert apply(apply(TEXT, done), remainder(done, whole, TEXT)) == apply(TEXT, whole)


@given(spans, spans)
def test_what_was_done_leaves_of_a_merge_what_others_did(one: Any, other: Any) -> None:
    """After a branch's own edits, those of the others are left."""
    done = edits_of(one)
    whole, conflicts = merge([done, edits_of(other)])
    if not conflicts:
        assert apply(apply(TEXT, done), remainder(done, whole, TEXT)) == apply(TEXT, whole)


# Speed


def seconds(workflow: Workflow, messages: Any) -> float:
    """The processor time of the quickest of three."""
    taken: list[float] = []
    for _ in range(3):
        started = time.process_time()
        assert not workflow.check_sync(messages).blocked
        taken.append(time.process_time() - started)
    return min(taken)


def diamond() -> Workflow:
    """Two redactors, and one behind them."""
    return Workflow("w").dag(
        member(Hide("a@b"), id="a"), member(Hide("x"), id="b"), member(Hide("m"), after=["a", "b"])
    )


GROWING: Mapping[str, Callable[[int], tuple[Workflow, Any]]] = {
    "messages": lambda n: (diamond(), [Message.user(f"m {i} a@b", id=str(i)) for i in range(n)]),
    "edits": lambda n: (diamond(), "a@b x " * n),
    "members": lambda n: (
        Workflow("d").dag(*[member(Hide("a@b"), id=f"m{i}", after=f"m{i - 1}" if i else ()) for i in range(n // 2)]),
        "a@b " * 50,
    ),
}


@pytest.mark.parametrize("what", GROWING)
def test_a_dag_takes_time_in_proportion(what: str) -> None:
    """Four times as much takes about four times as long, far from the sixteen of a square."""
    small, large = (GROWING[what](size) for size in (100, 400))
    assert seconds(*large) < 10 * seconds(*small) + 0.02
