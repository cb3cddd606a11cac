"""More cases of the suite: what goes wrong in agents that pass the plain ones. Importing this module adds them."""

from __future__ import annotations

from penstock import (
    Context,
    InputContext,
    InputStepContext,
    OutputStepContext,
    PIIDetector,
    Processor,
    ToolCallContext,
    ToolResultContext,
    UnicodeNormalizer,
    Workflow,
    processor,
)
from penstock.engine.values.errors import PenstockError
from penstock.processors.text import RegexFilterProcessor
from tests.hosts.cases import BLOCKS, HIDES, MAIL, PIECES, Lookups, NoBad, Person, all_asked, case, has_word
from tests.hosts.contract import Call, Driver, Job, Says


@case("a character a chunk", leaks=True)
async def character_a_chunk(driver: Driver, streamed: bool) -> None:
    """However the model cuts it, the stream and the answer are the same."""
    text = f"Write to {MAIL}, or to bob@example.com, please."
    seen = await driver.run(Job([Says(pieces=list(text))], "Whom?", [HIDES], streamed=streamed))
    assert seen.output == "Write to [EMAIL], or to [EMAIL], please."
    if streamed:
        assert "".join(seen.shown) == seen.output
    assert "@" not in "".join(seen.shown) + seen.everything


@case("still a stream")
async def still_a_stream(driver: Driver, streamed: bool) -> None:
    """Text that no guard waits for is not kept back until the end."""
    pieces = [f"word {number} of many. " for number in range(20)]
    seen = await driver.run(Job([Says(pieces=pieces)], "Go", [HIDES], streamed=streamed))
    assert seen.output == "".join(pieces)
    if streamed:
        assert "".join(seen.shown) == seen.output
        assert len(seen.shown) > 10


@case("observer changes nothing")
async def observed(driver: Driver, streamed: bool) -> None:
    """The user, the tool and the model get what they get from the framework alone."""

    @processor("process_output_step", role="observer")
    def look(ctx: OutputStepContext) -> None:
        """Look."""

    asked, seen = [], []
    for guards in ([], [look]):
        tool = Lookups("42 is the answer")
        script = [Says("I look", calls=[Call("lookup", {"query": "x"})]), Says(pieces=["It is ", "42", "."])]
        seen.append(await driver.run(Job(script, "Go", guards, streamed=streamed, tools=[tool.tool])))
        asked.append(tool.asked)
    bare, ours = seen
    assert ours.error is None
    assert (ours.output, "".join(ours.shown), asked[1]) == (bare.output, "".join(bare.shown), asked[0])
    for text in ("Go", "I look", "42 is the answer", "It is 42."):
        assert [text in strings for strings in (ours.history, *ours.asked)] == [
            text in strings for strings in (bare.history, *bare.asked)
        ], text


@case("empty answer")
async def empty_answer(driver: Driver, streamed: bool) -> None:
    """The framework does with it what it does alone: some take it, some ask again, some fail."""
    seen = [
        await driver.run(Job([Says(""), Says("done"), Says("done")], "Go", guards, streamed=streamed))
        for guards in ([], [HIDES])
    ]
    bare, ours = seen
    assert ours.tripwire is None
    assert not isinstance(ours.error, PenstockError)
    if bare.error is None:  # else the framework's fake model may have failed, since it had no piece to stream
        assert (ours.output, len(ours.asked), ours.error) == (bare.output, len(bare.asked), None)


@case("disguised secret", leaks=True)
async def disguised(driver: Driver, streamed: bool) -> None:
    """Invisible characters within it, in what the user says and in what the model says."""
    hidden = "a\u200bda@exam\u200dple.c\u2060om"
    guards = [Workflow("w").then(UnicodeNormalizer(phase="all")).then(HIDES)]
    script = [Says(pieces=["Write to ", hidden[:7], hidden[7:], ", please."])]
    seen = await driver.run(Job(script, f"I am {hidden}", guards, streamed=streamed))
    assert "I am [EMAIL]" in all_asked(seen)
    assert seen.output == "Write to [EMAIL], please."
    if streamed:
        assert "".join(seen.shown) == seen.output
    assert "\u200b" not in all_asked(seen) + seen.everything
    assert "ple" not in "".join(seen.shown).replace("please", "")


@case("two guards in a branch")
async def branched(driver: Driver, streamed: bool) -> None:
    """The condition is asked at each stage; each arm guards what is its own."""
    words = RegexFilterProcessor([{"name": "word", "pattern": "please", "replacement": "now"}], strategy="redact")

    def of_output(ctx: Context) -> bool:
        return ctx.stage_name.startswith("process_output")

    guards = [Workflow("w").branch((of_output, HIDES), otherwise=words)]
    seen = await driver.run(Job([Says(pieces=PIECES)], f"Ask {MAIL}, please.", guards, streamed=streamed))
    assert f"Ask {MAIL}, now." in all_asked(seen)
    assert seen.output == "Write to [EMAIL], please."
    if streamed:
        assert "".join(seen.shown) == seen.output


@case("verdict with metadata")
async def verdict(driver: Driver, streamed: bool) -> None:
    """What a guard says of its verdict reaches the user of the framework whole."""

    @processor("process_output_step", role="guard")
    def judge(ctx: OutputStepContext) -> None:
        ctx.abort("too bold", metadata={"score": 0.9, "labels": ["a", "b"]})

    seen = await driver.run(Job([Says("I dare")], "Go", [judge], streamed=streamed))
    assert seen.tripwire is not None
    assert (seen.tripwire.reason, seen.tripwire.processor_id) == ("too bold", "judge")
    assert seen.tripwire.metadata["score"] == 0.9
    assert list(seen.tripwire.metadata["labels"]) == ["a", "b"]
    assert "dare" not in seen.everything


@case("retry after a tool")
async def retry_after_tool(driver: Driver, streamed: bool) -> None:
    """The answer is requested again; the tool does not run twice."""
    tool = Lookups("42")
    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("a bad one"), Says("a fine one")]
    seen = await driver.run(Job(script, "Go", [NoBad()], streamed=streamed, tools=[tool.tool]))
    assert seen.output == "a fine one"
    assert tool.asked == ["x"]
    assert "42" in "\n".join(seen.asked[2])
    assert "it says so" in "\n".join(seen.asked[2])
    assert not has_word("bad", seen.everything)


@case("tools of a rejected answer")
async def rejected_calls(driver: Driver, streamed: bool) -> None:
    """They do not run, and nobody finds their calls."""
    tool = Lookups("42")
    script = [Says("a bad one", calls=[Call("lookup", {"query": "rejected"})]), Says("a fine one")]
    seen = await driver.run(Job(script, "Go", [NoBad()], streamed=streamed, tools=[tool.tool]))
    assert seen.output == "a fine one"
    assert tool.asked == []
    assert "rejected" not in seen.everything + "\n".join(seen.asked[1])


@case("text beside a tool call", leaks=True)
async def text_and_call(driver: Driver, streamed: bool) -> None:
    """Both are guarded, and both arrive."""
    tool = Lookups("42")
    calls = [Call("lookup", {"query": f"of {MAIL}"})]
    script = [Says(pieces=["I ask ada@ex", "ample", ".com. "], calls=calls), Says("done")]
    bare = await driver.run(Job(script, "Go", streamed=streamed, tools=[Lookups("42").tool]))
    seen = await driver.run(Job(script, "Go", [HIDES], streamed=streamed, tools=[tool.tool]))
    assert seen.error is None, seen.error
    assert seen.output == bare.output.replace(MAIL, "[EMAIL]")  # some end a stream at the first text
    assert tool.asked == ["of [EMAIL]"]
    assert "I ask [EMAIL]. " in seen.history
    assert "@ex" not in seen.everything + all_asked(seen)


@case("several steps with tools", leaks=True)
async def several_steps(driver: Driver, streamed: bool) -> None:
    """Each call and each result, in order; what was clean stays."""
    tool = Lookups()
    script = [Says(calls=[Call("lookup", {"query": f"{number} {MAIL}"}, f"c{number}")]) for number in range(3)]
    seen = await driver.run(Job([*script, Says("done")], "Go", [HIDES], streamed=streamed, tools=[tool.tool]))
    assert seen.output == "done"
    assert tool.asked == ["0 [EMAIL]", "1 [EMAIL]", "2 [EMAIL]"]
    assert [strings.count("it is [EMAIL]") for strings in seen.asked] == [0, 1, 2, 3]
    assert "@example.com" not in seen.everything + all_asked(seen)


@case("one of two results blocked")
async def one_result_blocked(driver: Driver, streamed: bool) -> None:
    """The request ends, whichever of the two comes first."""

    def lookup(query: str) -> str:
        """Look something up."""
        return MAIL if query == "two" else "fine"

    @processor("process_tool_result", role="guard")
    def no_mail(ctx: ToolResultContext) -> None:
        if "@" in str(ctx.result):
            ctx.abort("no mail")

    calls = [Call("lookup", {"query": "one"}, "c1"), Call("lookup", {"query": "two"}, "c2")]
    seen = await driver.run(Job([Says(calls=calls), Says("x")], "Go", [no_mail], streamed=streamed, tools=[lookup]))
    assert seen.tripwire is not None
    assert len(seen.asked) == 1
    assert MAIL not in seen.everything


@case("failing tool")
async def failing_tool(driver: Driver, streamed: bool) -> None:
    """The model does not read the secret in its error; the framework fails or goes on, as it does alone."""

    def lookup(query: str) -> str:
        """Look something up."""
        raise ValueError(f"{MAIL} is not known")

    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("done")]
    bare = await driver.run(Job(script, "Go", streamed=streamed, tools=[lookup]))
    ours = await driver.run(Job(script, "Go", [HIDES], streamed=streamed, tools=[lookup]))
    assert (ours.output, len(ours.asked)) == (bare.output, len(bare.asked))
    assert ours.tripwire is None
    assert MAIL not in all_asked(ours) + ours.everything


@case("message added for the model")
async def message_added(driver: Driver, streamed: bool) -> None:
    """What a processor adds reaches the model in each step."""

    class Adds(Processor):
        role, edits = "transform", "anything"

        def process_input(self, ctx: InputContext) -> object:
            return ctx.message_list.replace_system("Be brief.", tag="adds")

    tool = Lookups("42")
    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("done")]
    seen = await driver.run(Job(script, "Go", [Adds()], streamed=streamed, tools=[tool.tool]))
    assert seen.output == "done"
    assert ["\n".join(strings).count("Be brief.") for strings in seen.asked] == [1, 1]


@case("step changed for the model")
async def step_changed(driver: Driver, streamed: bool) -> None:
    """A stage of the step judges before the second call, with the results in hand."""

    @processor("process_input_step", role="guard")
    def no_results(ctx: InputStepContext) -> None:
        if ctx.step_number > 0:
            ctx.abort("one step is enough")

    tool = Lookups("42")
    script = [Says(calls=[Call("lookup", {"query": "x"})]), Says("done")]
    seen = await driver.run(Job(script, "Go", [no_results], streamed=streamed, tools=[tool.tool]))
    assert tool.asked == ["x"]
    assert len(seen.asked) == 1
    assert seen.tripwire is not None
    assert seen.tripwire.reason == "one step is enough"


@case("next turn after blocked input")
async def turn_after_block(driver: Driver, streamed: bool) -> None:
    """The framework's memory can be gone on with; if it kept the message, guards read it again."""
    first = await driver.run(Job([Says("never")], f"I am {MAIL}", [BLOCKS], streamed=streamed))
    assert first.tripwire is not None
    job = Job([Says("Yes")], "Do you know me?", [HIDES], streamed=streamed, earlier=first.memory)
    second = await driver.run(job)
    assert second.error is None, second.error
    assert second.output == "Yes"
    assert MAIL not in all_asked(second) + second.everything


@case("next turn after blocked output")
async def turn_after_blocked_output(driver: Driver, streamed: bool) -> None:
    """The blocked answer is not in the framework's memory."""
    first = await driver.run(Job([Says(pieces=PIECES)], "Whom?", [BLOCKS], streamed=streamed))
    assert first.tripwire is not None
    job = Job([Says("Yes")], "And now?", [BLOCKS], streamed=streamed, earlier=first.memory)
    second = await driver.run(job)
    assert second.error is None, second.error
    assert second.output == "Yes"
    assert not has_word("ada", all_asked(second) + second.everything)


@case("three turns with tools", leaks=True)
async def three_turns(driver: Driver, streamed: bool) -> None:
    """Old calls and results are known again; none is guarded twice into something else."""
    tool, memory = Lookups(), None
    for number in range(3):
        script = [Says(calls=[Call("lookup", {"query": f"{number} {MAIL}"}, f"c{number}")]), Says(f"found {MAIL}")]
        job = Job(script, f"Turn {number}", [HIDES], streamed=streamed, tools=[tool.tool], earlier=memory)
        seen = await driver.run(job)
        assert seen.error is None, seen.error
        assert seen.output == "found [EMAIL]"
        assert MAIL not in all_asked(seen) + seen.everything
        memory = seen.memory
    said = "\n".join(seen.asked[-1])
    assert [said.count(f"Turn {number}") for number in range(3)] == [1, 1, 1]
    assert said.count("it is [EMAIL]") == 3
    assert said.count("found [EMAIL]") == 2


@case("structured output blocked", leaks=True)
async def structured_blocked(driver: Driver, streamed: bool) -> None:
    """No object is made of it."""
    script = [Says('{"name": "Ada", "mail": "ada@example.com"}')]
    seen = await driver.run(Job(script, "Who?", [BLOCKS], streamed=streamed, output_type=Person))
    assert seen.output is None
    assert seen.tripwire is not None
    assert MAIL not in seen.everything


@case("tool calls as objects")
async def calls_read(driver: Driver, streamed: bool) -> None:
    """A guard at the call reads the tool's name, and its arguments as an object; it is asked once."""
    read: list[tuple[str, object]] = []

    @processor("process_tool_call", role="observer")
    def note(ctx: ToolCallContext) -> None:
        read.append((ctx.tool_name, dict(ctx.arguments)))  # type: ignore[call-overload]

    tool = Lookups("42")
    script = [Says(calls=[Call("lookup", {"query": "x"}, "c7")]), Says("done")]
    await driver.run(Job(script, "Go", [note], streamed=streamed, tools=[tool.tool]))
    assert read == [("lookup", {"query": "x"})]


@case("guards in a list")
async def many_guards(driver: Driver, streamed: bool) -> None:
    """Guards in a list run one after another, at every stage; a verdict of the second is its own."""
    last = PIIDetector(strategy="block", id="last")
    seen = await driver.run(Job([Says(pieces=PIECES)], f"I am {MAIL}", [HIDES, last], streamed=streamed))
    assert seen.error is None, seen.error
    assert "I am [EMAIL]" in all_asked(seen)
    assert seen.output == "Write to [EMAIL], please."


@case("reasoning", leaks=True)
async def reasoning(driver: Driver, streamed: bool) -> None:
    """Thoughts are guarded as the answer is."""
    script = [Says("done", reasoning=["The user is ada@ex", "ample", ".com, I think."])]
    seen = await driver.run(Job(script, "Go", [HIDES], streamed=streamed))
    assert seen.error is None, seen.error
    assert seen.output == "done"
    assert not has_word("ada", seen.everything)


@case("error in mid-stream")
async def breaks_in_stream(driver: Driver, streamed: bool) -> None:
    """The user gets the error of the model; what guards still held back is judged before it is shown."""
    failure = RuntimeError("the line is down")
    script = [Says(pieces=["Write to ada@ex", "ample.com"], breaks=failure)]
    seen = await driver.run(Job(script, "Whom?", [HIDES], streamed=streamed))
    assert seen.tripwire is None
    errors = [seen.error]
    while errors[-1] is not None:
        errors.append(errors[-1].__cause__ or errors[-1].__context__)
    assert failure in errors, seen.error
    assert not has_word("ada", seen.everything)
