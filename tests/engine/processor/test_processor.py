"""What a processor is and declares: by class, by function, checked when it is placed."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest

from penstock import InputContext, Key, OptionError, OutputStepContext, Processor, Workflow, processor
from penstock.engine import ProcessorError, UsageError
from penstock.engine.processor.processor import claims_of

FACT = Key[int]("fact")


class PIIGuard(Processor):
    """Named by its class."""

    def __init__(self, strategy: str = "redact", **claims: Any) -> None:
        self.strategy = strategy
        self._secret = "not shown"
        for name, value in claims.items():
            setattr(self, name, value)

    def process_input(self, ctx: InputContext) -> None:
        """Look."""


class Quiet(Processor):
    """Named by hand."""

    id = "hush"

    async def process_output_step(self, ctx: OutputStepContext) -> None:
        """Look."""


def test_an_id_is_the_class_name_in_kebab_case_unless_it_is_set() -> None:
    """By the class, or by the instance."""
    assert (PIIGuard().id, Quiet().id, PIIGuard(id="mine").id) == ("pii-guard", "hush", "mine")

    class HTMLToText2(Quiet):
        pass

    assert HTMLToText2().id == "html-to-text2"


def test_undeclared_code_is_a_guard_that_may_edit_anything_and_fails_closed() -> None:
    """What nobody claims is not assumed."""
    claims = claims_of(PIIGuard())
    assert (claims.role, claims.edits, claims.on_error) == ("guard", "anything", "raise")
    assert (claims.provides, claims.requires, claims.stores, claims.named) == (frozenset(), frozenset(), False, False)
    assert {name: hook.awaits for name, hook in claims.hooks.items()} == {"process_input": False}
    assert claims_of(Quiet()).hooks["process_output_step"].awaits


def test_claims_may_be_set_in_the_constructor() -> None:
    """Options change what a processor may do."""
    claims = claims_of(PIIGuard(edits="spans", on_error="block", provides=[FACT], requires=FACT, stores=1, id="x"))
    assert (claims.edits, claims.on_error, claims.provides, claims.stores) == ("spans", "block", {FACT}, True)
    assert (claims.requires, claims.named) == ({FACT}, True)
    assert claims_of(PIIGuard(role="observer")).edits == "nothing"


def test_stages_may_be_left_out() -> None:
    """Of those that it has."""

    class Both(PIIGuard):
        def process_output_step(self, ctx: OutputStepContext) -> None:
            """Look."""

    assert list(claims_of(Both()).hooks) == ["process_input", "process_output_step"]
    assert list(claims_of(Both(stages=["process_input"])).hooks) == ["process_input"]


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"edits": "everything"}, ["PIIGuard", "'edits'", "'everything'", "'nothing', 'spans', 'anything'"]),
        ({"role": "boss"}, ["'role'", "'guard', 'transform', 'observer'"]),
        ({"on_error": "ignore"}, ["'on_error'", "'block', 'raise', 'allow'"]),
        ({"provides": ["fact"]}, ["'provides'", "Key('name')"]),
        ({"requires": ["fact"]}, ["'requires'", "Key('name')"]),
        ({"id": "a/b"}, ["'id'", "without '/'"]),
        ({"id": "  "}, ["'id'"]),
        ({"id": 3}, ["'id'"]),
        ({"stages": ["process_inptu"]}, ["'stages'", "process_input"]),
    ],
)
def test_a_wrong_claim_is_refused_when_the_processor_is_placed(claims: dict[str, Any], words: list[str]) -> None:
    """The error names the processor, the option, and what is allowed."""
    with pytest.raises(OptionError) as caught:
        Workflow("w").then(PIIGuard(**claims))
    assert all(word in str(caught.value) for word in words), caught.value


def test_an_observer_that_edits_is_refused() -> None:
    """Where it says so; one that edits all the same fails when it does."""
    with pytest.raises(ProcessorError, match="an observer must have edits='nothing'"):
        Workflow("w").then(PIIGuard(role="observer", edits="spans"))


def test_a_processor_without_hooks_is_refused() -> None:
    """Or one whose hook is no method."""

    class Empty(Processor):
        pass

    with pytest.raises(ProcessorError, match="none of the stages' methods"):
        Workflow("w").then(Empty())
    with pytest.raises(ProcessorError, match="process_input must be a method, not int"):
        Workflow("w").then(PIIGuard(process_input=3))


def test_a_hook_that_tells_nothing_of_its_parameters_fails_when_it_is_called() -> None:
    """As some builtins do; then it is closed, like any check that broke."""
    guard = PIIGuard(process_input=max, on_error="block")
    outcome = Workflow("w").then(guard).check_sync("hi")
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata["error"] == "TypeError"


def test_a_misspelt_hook_is_refused_with_the_class() -> None:
    """With a suggestion where one is close."""
    with pytest.raises(ProcessorError, match="did you mean 'process_input'"):
        type("Wrong", (Processor,), {"process_inputs": print})
    with pytest.raises(ProcessorError, match="there are process_input"):
        type("Wrong", (Processor,), {"process_zzzzzzzzzz": print})


def test_processors_compare_and_print_by_class_and_options() -> None:
    """Private attributes are not shown, and it is not hashable, since options may not be."""
    assert PIIGuard("mask") == PIIGuard("mask") != PIIGuard("block")
    assert PIIGuard() != Quiet()
    assert repr(PIIGuard("mask")) == "PIIGuard(strategy='mask')"
    with pytest.raises(TypeError):
        hash(PIIGuard())


# Functions


def test_a_function_is_a_processor_of_the_stage_its_context_names() -> None:
    """Sync or async, bare or with claims; it can still be called."""

    @processor
    def look_at_it(ctx: InputContext) -> None:
        """Look."""

    @processor(id="later", edits="nothing", provides=FACT)
    async def look_later(ctx: OutputStepContext[dict[str, int]]) -> None:
        """Look."""

    assert (look_at_it.id, list(claims_of(look_at_it).hooks)) == ("look-at-it", ["process_input"])
    assert not claims_of(look_at_it).named
    claims = claims_of(look_later)
    assert (claims.id, claims.named, claims.edits, claims.provides) == ("later", True, "nothing", {FACT})
    assert claims.hooks["process_output_step"].awaits
    assert look_at_it.__doc__ == "Look."
    assert processor("process_input")(str.upper)("a") == "A"


def test_a_function_may_name_its_stage() -> None:
    """Where nothing is annotated, by a string, or with a generic context."""

    @processor("process_output_step")
    def named(ctx):
        """Look."""

    def annotated(ctx) -> None:
        """Look."""

    for annotation in ("InputContext", "penstock.InputContext[dict[str, int]]", InputContext, InputContext[dict]):
        annotated.__annotations__["ctx"] = annotation
        assert list(claims_of(processor(annotated)).hooks) == ["process_input"]
    assert list(claims_of(named).hooks) == ["process_output_step"]
    assert processor("process_input")(lambda ctx: None).id == "lambda"
    assert processor("process_input")(functools.partial(print)).id == "processor"


def test_a_function_of_no_stage_or_of_two_is_refused() -> None:
    """The error says how to name one."""

    def bare(ctx) -> None:
        """Look."""

    def other(ctx: OutputStepContext) -> None:
        """Look."""

    def both(ctx: OutputStepContext, old: InputContext) -> None:
        """Look."""

    with pytest.raises(ProcessorError, match="@processor\\('process_input'\\)"):
        processor(bare)
    with pytest.raises(ProcessorError, match="it has no stage"):
        processor(both)
    with pytest.raises(
        ProcessorError, match="its stage is 'process_input', but its context is that of 'process_output"
    ):
        processor("process_input")(other)
    with pytest.raises(OptionError, match="process_inptu"):
        processor("process_inptu")


def test_what_is_no_processor_is_refused_with_the_cure() -> None:
    """A class, a function, something else; in every place."""
    for place in (Workflow("w").then, Workflow("w").parallel, lambda item: Workflow("w").branch((bool, item))):
        with pytest.raises(ProcessorError, match="place an instance: PIIGuard"):
            place(PIIGuard)
        with pytest.raises(ProcessorError, match="make it a processor with @processor"):
            place(print)
        with pytest.raises(ProcessorError, match="neither a processor nor a workflow"):
            place(3)
        with pytest.raises(ProcessorError, match="one by one"):
            place([PIIGuard()])


def test_an_observer_that_returns_an_edit_fails() -> None:
    """What it declares is kept to."""

    @processor(role="observer", on_error="block")
    def meddle(ctx: InputContext) -> Any:
        return ctx.message_list.map_text(str.upper)

    outcome = Workflow("w").then(meddle).check_sync("hi")
    assert "edits nothing" in str(outcome.failure)


def test_a_key_is_its_name() -> None:
    """And has one."""
    assert (Key("a"), hash(Key("a")), repr(Key("a"))) == (Key("a"), hash(Key("a")), "Key('a')")
    assert Key("a") != Key("b")
    with pytest.raises((ValueError, UsageError)):
        Key("")


def test_a_method_is_checked_once_for_a_context_and_once_for_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All processors of a class have the same methods. One that accepts a context need not accept a chunk, too."""

    class Both(Processor):
        def process_input(self, ctx: InputContext) -> None:
            """Look."""

    checks: list[object] = []
    signature = inspect.signature

    def counted(call: Any) -> inspect.Signature:
        checks.append(call)
        return signature(call)

    monkeypatch.setattr("penstock.engine.processor.processor.inspect.signature", counted)
    assert [list(claims_of(Both()).hooks) for _ in range(3)] == [["process_input"]] * 3
    assert len(checks) == 1
    monkeypatch.setattr(Both, "process_output_stream", Both.process_input, raising=False)
    for _ in range(2):  # what was refused is refused again
        with pytest.raises(ProcessorError, match=r"process_output_stream must accept \(chunk, ctx\)"):
            claims_of(Both())
