"""Pages in one file: complete, quiet, the same each time, and safe with any text in them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from penstock import Agent, InputContext, Processor, Workflow, processor
from penstock.engine import UsageError
from penstock.engine.tracing.trace import Span, Trace
from penstock.pictures.self_contained import Modules, json_block, page_of, shared_modules
from penstock.testing import ScriptedModel
from tests.laws import examples
from tests.pictures.test_mermaid import NASTY, Checks, names
from tests.pictures.test_render import example

HOSTILE = "</script><!-- <script>alert(1)</script> \u2028 \x1b[31m \ud800 &amp; \"'"


class Parsed(HTMLParser):
    """What an HTML parser sees: the elements with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a script."""
        self._in_script = False

    def handle_data(self, data: str) -> None:
        """Note the text of a script."""
        if self._in_script:
            self.scripts[-1] += data

    @property
    def kinds(self) -> list[str | None]:
        """The types of the scripts, in order."""
        return [attributes.get("type") for tag, attributes in self.elements if tag == "script"]

    @property
    def data(self) -> Any:
        """The data block."""
        return json.loads(self.scripts[1])


SCRIPTS = ["importmap", "application/json", "module"]


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(names)
def test_no_name_adds_an_element_or_leaves_its_place(name: str) -> None:
    """The same elements as for a harmless name, and the name arrives."""
    hostile = Parsed(Workflow(name).then(Checks(name)).draw("html"))
    plain = Parsed(Workflow("w").then(Checks("c")).draw("html"))
    assert hostile.kinds == SCRIPTS
    wraps = {"text", "title"}  # a long name stands in several lines, and whole in a tooltip
    found, meant = ([tag for tag, _ in one.elements if tag not in wraps] for one in (hostile, plain))
    assert found == meant
    assert hostile.data["name"] == name


@pytest.mark.parametrize("text", [*NASTY, HOSTILE])
def test_no_text_of_a_trace_leaves_its_place(text: str) -> None:
    """Markup in a reason is data."""
    span = Span(0, None, "step", text, path="c", error=text)
    page = Parsed(Workflow("w").then(Checks("c")).draw("html", trace=Trace("r", "w", "passed", (span,))))
    assert page.kinds == SCRIPTS
    assert page.data["trace"]["spans"][0]["error"] == text


def test_nothing_is_fetched_and_only_our_scripts_run() -> None:
    """The policy allows what has the nonce, and every script and style that runs has it."""
    text = example().draw("html")
    page = Parsed(text)
    policy = next(one["content"] for tag, one in page.elements if tag == "meta" and "http-equiv" in one)
    nonce = re.search(r"script-src 'nonce-(\w{64})';", policy or "")
    assert nonce
    assert (policy or "").startswith("default-src 'none'; ")
    for tag, attributes in page.elements:
        if tag == "style" or (tag == "script" and attributes.get("type") != "application/json"):
            assert attributes.get("nonce") == nonce[1]
        assert not {"src", "href", "onload", "onerror", "style"} & set(attributes)


def test_every_module_that_is_imported_is_in_the_file() -> None:
    """A name that the import map does not have would leave an empty page."""
    imports = shared_modules().imports
    wanted = {name for text in imports.values() for name in re.findall(r' from "([^"]+)";\n', text)}
    assert {"lit-html", "penstock/view.js"} <= wanted <= set(imports)
    assert json.loads(Parsed(example().draw("html")).scripts[0])["imports"].keys() == imports.keys()


@pytest.mark.rest
def test_the_same_workflow_is_the_same_page() -> None:
    """So that a page under version control changes only when the workflow does."""
    assert example().draw("html") == example().draw("html")
    assert example().draw("html") != example().draw("html", stage="process_input")


def test_the_nonce_depends_on_all_that_is_in_the_page() -> None:
    """Else a text could quote it."""
    modules = Modules({"m": "1"}, "")
    nonces = {
        re.findall(r"nonce-(\w+)", page_of(*page))[0]
        for page in [
            ("t", modules, "m", {}, ""),
            ("u", modules, "m", {}, ""),
            ("t", Modules({"m": "2"}, ""), "m", {}, ""),
            ("t", modules, "m", {"a": 1}, ""),
            ("t", modules, "m", {}, "<svg/>"),
        ]
    }
    assert len(nonces) == 5


def test_a_page_says_all_about_each_step() -> None:
    """Options, policy, stages and docs, and every place of the picture that can be chosen has an entry."""
    text = example().draw("html")
    told = Parsed(text).data
    assert told["trace"] is None
    by_path = {step["path"]: step for step in told["steps"]}
    steps = {path for path, step in by_path.items() if step["kind"] == "step"}
    assert steps == set(re.findall(r'data-kind="step" data-path="([^"]+)"', text))
    first = next(step for step in told["steps"] if step["kind"] == "step")
    assert {"doc", "role", "stages", "policy", "options", "provides", "requires"} <= set(first)


def test_the_docs_of_a_step_are_its_own() -> None:
    """Of the class or of a parent of the user's; of the function; never those of our base classes."""

    class Documented(Processor[Any]):
        """Does this.

        And that.
        """

        edits = "nothing"

        def process_input(self, ctx: InputContext) -> None: ...

    class Derived(Documented):
        pass

    class Silent(Processor[Any]):
        edits = "nothing"

        def process_input(self, ctx: InputContext) -> None: ...

    @processor
    def told(ctx: InputContext) -> None:
        """Says so."""

    @processor
    def untold(ctx: InputContext) -> None: ...

    workflow = Workflow("w")
    for number, one in enumerate([Documented(), Derived(), Silent(), told, untold]):
        workflow = workflow.then(one, id=f"s{number}")
    docs = {step["path"]: step["doc"] for step in Parsed(workflow.draw("html")).data["steps"]}
    whole = "Does this.\n\nAnd that."
    assert docs == {"s0": whole, "s1": whole, "s2": "", "s3": "Says so.", "s4": ""}


def test_a_trace_is_for_formats_that_show_it() -> None:
    """A picture that silently leaves the run out would mislead."""
    with pytest.raises(UsageError, match="a trace is laid over a picture"):
        example().draw("text", trace=Trace("r", "w", "passed"))


def test_json_in_a_page_is_ascii_and_has_no_markup() -> None:
    """What no JSON can hold is named by its type."""
    text = json_block({"a": HOSTILE, "b": object})
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert json.loads(text) == {"a": HOSTILE, "b": "type"}


def test_an_agent_has_a_page_too() -> None:
    """With the steps of all its lists, each once, and a run of it."""
    agent = Agent(ScriptedModel(["hi"]), id="bot", processors=[Checks("c")])
    trace = agent.generate_sync("x", records=True).trace
    assert trace
    told = Parsed(agent.draw("html", trace=trace)).data
    assert (told["name"], told["trace"]["workflow"]) == ("bot", trace.workflow)
    assert [step["path"] for step in told["steps"] if step["kind"] == "step"].count("c") == 1
