"""`examples/custom/`: each says what it promises, keeps it beyond its own example, and stands in the docs as it is."""

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from penstock import Agent, Message, ModelError, Retry, Workflow, processor
from penstock.engine import ReasoningPart
from penstock.testing import ScriptedModel, run_stage, run_stream

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "custom"
FILES = sorted(FOLDER.glob("*.py"))
PAGE = ROOT / "docs" / "custom-processors.md"

PRINTED = {
    "content_filter.py": [
        "Thanks! -> success: You are welcome.",
        "Teach me ROULETTE. -> blocked: process_input",
        "Where can I play? -> blocked: process_output_stream",
    ],
    "dynamic_model.py": [
        "small: ['population']",
        "large: Ten million people live in Lima.",
        "the large one was offered: ()",
    ],
    "ensure_final_response.py": [
        "I found nothing about it.",
        "[['search'], ['search'], []]",
        "['No tools are left. Answer now with what you know, and say what is missing.']",
    ],
    "error_recovery.py": ["The third. after prompts of [5, 3, 1] messages"],
    "lowercase.py": ["the model reads: where is my parcel?", "it answers:      No need to shout."],
    "metadata.py": ["user {'channel': 'web'}", "assistant {'words': 2, 'tokens': 23}"],
    "moderation_collector.py": ["NO! ('shouting in step 0',) ['text']", "No, thank you. () ['text']"],
    "quality_gate.py": [
        "retry: name a source, as a link",
        "stop: It has 193 member states: https://un.org/members",
        "the rejected attempt is in the result: False",
    ],
    "reasoning_transformer.py": [
        "<thinking>91 = 7 x 13</thinking>",
        "No, it is composite.",
        "['reasoning', 'text']",
    ],
    "stream_filter.py": [
        "['start', 'step-start', 'text-start', 'text-delta', 'text-end', 'step-finish', 'finish']",
        "['text']",
    ],
    "system_trimmer.py": ["system: 'Be brief.\\nBe kind.'", "user: 'Hi'"],
    "word_counter.py": ["'Two wo'", "'rds and '", "'three more.'", "{'words': 5}"],
}


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_an_example_prints_what_it_is_about(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run as a script is; every file has its lines here."""
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == PRINTED[name]


def test_there_is_an_example_for_each_of_the_references() -> None:
    """Those that its documents show; none has gone missing."""
    assert {path.name for path in FILES} == set(PRINTED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_short_and_is_on_the_page_as_it_stands(path: Path) -> None:
    """A screenful of narrow lines; its classes are those that readers of the docs copy."""
    source, page = path.read_text("utf-8"), PAGE.read_text("utf-8")
    assert len(source.splitlines()) <= 70
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            assert ast.get_source_segment(source, node) in page, node.name


def names(name: str) -> dict[str, Any]:
    """What an example defines."""
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def test_lowercase_leaves_what_others_said_alone() -> None:
    """Only texts of the user's are changed."""
    messages = [Message.user("HI"), Message.assistant("HELLO"), Message.user("YOU")]
    outcome = run_stage(names("lowercase")["Lowercase"](), "process_input", messages)
    assert [message.text for message in outcome.messages] == ["hi", "HELLO", "you"]


@pytest.mark.parametrize("cut", range(1, 20))
def test_no_part_of_a_filtered_word_is_streamed(cut: int) -> None:
    """However the answer is cut; a longer word is another one."""
    guard = names("content_filter")["ContentFilter"](["casino"])
    text = "casinos, or the casino"
    chunks, outcome = run_stream(guard, [text[:cut], text[cut:]])
    assert outcome.blocked
    assert "casinos, or the ".startswith("".join(chunk.text for chunk in chunks))


def test_the_filter_finds_words_that_end_in_no_letter() -> None:
    """``C++`` is a word to whoever lists it."""
    guard = names("content_filter")["ContentFilter"](["c++"])
    assert run_stage(guard, "process_input", "Teach me C++ now.").blocked
    assert not run_stage(guard, "process_input", "Teach me C now.").blocked


def test_the_filters_verdict_does_not_quote() -> None:
    """It says that there is a word, not which."""
    outcome = run_stage(names("content_filter")["ContentFilter"](["casino"]), "process_input", "A Casino?")
    assert outcome.tripwire
    assert "casino" not in repr(outcome.tripwire).lower()


async def test_words_of_two_requests_are_not_added_up() -> None:
    """What was counted belongs to the request."""
    counter = names("word_counter")["WordCounter"]()
    agent = Agent(ScriptedModel(["one", "one two"]), processors=[counter])
    told = []
    for _ in range(2):
        async with agent.stream("Go") as stream:
            told += [chunk.payload["words"] async for chunk in stream if chunk.type == "data-words"]
    assert told == [1, 2]


async def test_words_of_attempts_that_were_rejected_or_broke_off_do_not_count() -> None:
    """What counts is the answer."""
    own = names("quality_gate")
    broken = {"text": "half an", "stream_error": {"status": 500, "message": "gone"}}
    agent = Agent(
        ScriptedModel([broken, "one two three", "see http://a.b"]),
        processors=[names("word_counter")["WordCounter"](), own["QualityGate"](own["without_source"])],
        error_processors=[processor("process_api_error")(lambda ctx: Retry())],
        max_processor_retries=2,
    )
    async with agent.stream("Go") as stream:
        assert [chunk.payload["words"] async for chunk in stream if chunk.is_data] == [2]


async def test_the_gate_lets_no_answer_pass_when_its_attempts_are_used_up() -> None:
    """The last rejection is the result."""
    own = names("quality_gate")
    model = ScriptedModel(["No."], repeat_last=True)
    gate = own["QualityGate"](own["without_source"])
    result = await Agent(model, processors=[gate], max_processor_retries=2).generate("Why?")
    assert (result.status, result.text, len(model.requests)) == ("blocked", "", 3)
    assert result.tripwire is not None
    assert result.tripwire.metadata == {"attempt": 3}


async def test_a_prompt_of_one_turn_and_other_errors_are_raised() -> None:
    """There is nothing to drop, or nothing that dropping would help."""
    for code in ("context_length_exceeded", "invalid_request"):
        model = ScriptedModel([{"error": {"status": 400, "code": code, "message": "no"}}])
        with pytest.raises(ModelError):
            await Agent(model, processors=[names("error_recovery")["ShorterPrompt"]()]).generate("Hi")
        assert len(model.requests) == 1


async def test_a_result_never_loses_its_call_to_a_shorter_prompt() -> None:
    """What goes are whole turns, whatever the model did in them."""
    calls = {"tool_calls": [{"name": "search", "args": {"query": "x"}}]}
    too_long = {"error": {"status": 400, "code": "context_length_exceeded", "message": "no"}}
    model = ScriptedModel([calls, too_long, "Done."])
    agent = Agent(
        model,
        tools=[names("ensure_final_response")["search"]],
        processors=[names("error_recovery")["ShorterPrompt"]()],
    )
    result = await agent.generate([Message.user("Old?"), Message.assistant("Old."), Message.user("New?")])
    assert result.text == "Done."
    last = model.requests[-1].messages
    assert [message.text for message in last if message.role == "user"] == ["New?"]
    assert [part.type for message in last for part in message.parts].count("tool") >= 1


async def test_the_thoughts_of_a_request_are_as_the_model_sent_them() -> None:
    """Only prompts are changed."""
    run = Workflow("w").then(names("reasoning_transformer")["ReasoningTransformer"]()).start()
    await run.process_input([Message.assistant([ReasoningPart("hm")]), Message.user("Well?")])
    prompt = await run.process_llm_request()
    assert prompt.messages[0].text == "<thinking>hm</thinking>"
    assert run.message_list.conversation[0].parts == (ReasoningPart("hm"),)


async def test_a_model_that_answers_early_keeps_its_tools_to_the_end() -> None:
    """The last step is told, and no step before it."""
    own = names("ensure_final_response")
    model = ScriptedModel([{"tool_calls": [{"name": "search", "args": {"query": "x"}}]}, "Found."])
    agent = Agent(model, tools=[own["search"]], processors=[own["EnsureFinalResponse"](3)], max_steps=3)
    assert (await agent.generate("Where?")).text == "Found."
    assert all(request.tools for request in model.requests)
    assert not any(message.role == "system" for request in model.requests for message in request.messages)


def test_trimming_leaves_short_prompts_and_owned_ones_alone() -> None:
    """A line that is too long by itself is cut where it must be."""
    trimmer = names("system_trimmer")["SystemTrimmer"](5)
    outcome = run_stage(
        trimmer, "process_input", [Message.system("brief"), Message.system("x" * 9), Message.user("Hi")]
    )
    assert [message.text for message in outcome.message_list.system] == ["brief", "xxxxx"]


async def test_the_client_is_not_shown_what_is_collected() -> None:
    """The chunk is taken out on its way."""
    own = names("moderation_collector")
    agent = Agent(ScriptedModel(["NO!"]), processors=[own["Tone"](), own["ModerationCollector"]()])
    async with agent.stream("Shall we?") as stream:
        types = [chunk.type async for chunk in stream]
    assert not [kind for kind in types if kind.startswith("data-")]


def test_the_page_names_every_example() -> None:
    """With a link to its file."""
    linked = set(re.findall(r"\.\./examples/custom/(\w+\.py)", PAGE.read_text("utf-8")))
    assert linked == set(PRINTED)
