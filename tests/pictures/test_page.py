"""Pages of workflows in a browser: what a reader sees, chooses and finds, by mouse and by keyboard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import InputContext, Processor, Workflow
from penstock.engine.tracing.span import Span, SpanArm, SpanChunk, SpanEdit, SpanText
from penstock.engine.tracing.trace import Trace
from penstock.engine.values.tripwire import Tripwire
from tests.pages import nameless, opened, too_wide

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "<img src=x onerror=alert(1)></script>\x1b[31m\u202e"


class Hider(Processor[Any]):
    """Hides e-mail addresses.

    Args:
        strategy: what to do with ``ann@example.com``.
    """

    edits = "spans"
    role = "guard"

    def __init__(self, strategy: str = "mask") -> None:
        self.strategy = strategy

    def process_input(self, ctx: InputContext) -> None:
        """Do nothing."""


class Judge(Processor[Any]):
    """Judges."""

    edits = "nothing"

    def process_input(self, ctx: InputContext) -> None:
        """Do nothing."""


def is_long(ctx: InputContext) -> bool:
    """Whether there is much to read."""
    return len(ctx.text) > 100


GUARD = (
    Workflow("guard <b>")
    .then(Hider("redact"), id="hider", timeout=None)
    .parallel(Judge(), Judge())
    .branch((is_long, Workflow("long").then(Judge(), id="again")))
    .then(Judge(), id="last", on_error="allow")
)

EDIT = SpanEdit("m1", 0, "text", 5, 20, "redact", "[EMAIL]")
VERDICT = Tripwire(f"said {HOSTILE}", "judge", "process_input", metadata={"score": 0.9})
TRACE = Trace(
    "r",
    "guard",
    "blocked",
    (
        Span(0, None, "run", "guard", seconds=0.05, status="tripped"),
        Span(1, 0, "stage", "process_input", stage="process_input", at=0.001, seconds=0.02, status="tripped"),
        Span(
            2,
            1,
            "step",
            "hider",
            "hider",
            "process_input",
            0.002,
            0.001,
            "edited",
            edits=(EDIT,),
            texts=(SpanText("m1", 0, "user", f"Mail ann@example.com {HOSTILE}", f"Mail [EMAIL] {HOSTILE}"),),
        ),
        Span(3, 1, "step", "judge", "judge", "process_input", 0.004, 0.002, "tripped", tripwire=VERDICT),
        Span(4, 1, "step", "judge#2", "judge#2", "process_input", 0.004, 0.0, "skipped"),
        Span(
            5,
            1,
            "branch",
            "branch",
            "branch",
            at=0.01,
            arms=(SpanArm("is_long", taken=True), SpanArm("otherwise", taken=False)),
        ),
        Span(
            6,
            0,
            "stage",
            "process_output_stream",
            stage="process_output_stream",
            at=0.03,
            seconds=0.02,
            chunks=(SpanChunk(0.031, "to ann@", 4, "to "), SpanChunk(0.04, "example.com now", 0, "[EMAIL] now")),
        ),
    ),
    seconds=0.05,
    texts=True,
    tripwire=VERDICT,
    usage={"input_tokens": 12},
)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A page without a run."""
    return written(tmp_path, GUARD)


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A page with a run."""
    return written(tmp_path, GUARD, trace=TRACE)


def written(folder: Path, workflow: Workflow, **options: Any) -> Path:
    """Write the page of a workflow, and return the file."""
    file = folder / "page.html"
    file.write_text(workflow.draw("html", **options), "utf-8")
    return file


def box(page: Page, path: str) -> Any:
    """Return the box of a step."""
    return page.locator(f'.picture g[data-path="{path}"]')


def test_a_click_shows_all_about_a_step(chromium: Browser, plain: Path) -> None:
    """Docs, options and policy; and another click beside it takes it back."""
    with opened(chromium, plain) as page:
        assert page.title() == "guard <b>"
        assert page.locator("h1").inner_text() == "guard <b>"
        box(page, "hider").click()
        told = page.locator(".panel").inner_text()
        for words in ("Hides e-mail addresses.", "strategy: what to do with ann@example.com.", "redact", "guard"):
            assert words in told
        assert box(page, "hider").get_attribute("aria-pressed") == "true"
        box(page, "last").click()
        assert "on_error" in page.locator(".panel").inner_text()
        box(page, "branch").click()
        assert "the first arm that holds" in page.locator(".panel").inner_text()
        assert "undeclared" not in page.locator(".panel").inner_text()
        page.locator(".picture").click(position={"x": 5, "y": 5})
        assert "5 steps" in page.locator(".panel").inner_text()


def test_the_keyboard_reaches_every_step(chromium: Browser, plain: Path) -> None:
    """One stop of the tab key, then arrows; Enter chooses, Escape goes back; + and 0 zoom."""
    with opened(chromium, plain) as page:
        box(page, "hider").focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowDown")
        focused = page.evaluate("document.activeElement.dataset.path")
        assert focused not in (None, "hider")
        page.keyboard.press("Enter")
        assert page.locator(".details .path").inner_text() == focused
        page.keyboard.press("Escape")
        assert page.locator(".details").count() == 0
        width = page.evaluate("document.querySelector('.picture svg').clientWidth")
        page.keyboard.press("+")
        assert page.evaluate("document.querySelector('.picture svg').clientWidth") > width
        page.keyboard.press("0")
        assert page.evaluate("document.querySelector('.picture svg').clientWidth") == width
        assert page.locator('.picture g[tabindex="0"]').count() == 1
        assert nameless(page) == []


def test_a_search_finds_steps_and_dims_the_others(chromium: Browser, plain: Path) -> None:
    """By words of the docs; Enter goes from one to the next, Escape ends it."""
    with opened(chromium, plain) as page:
        search = page.get_by_role("searchbox")
        search.fill("judges")
        assert page.locator("output").inner_text() == "4 found"
        assert page.locator(".picture g.found").count() == 4
        search.press("Enter")
        first = page.locator(".details .path").inner_text()
        search.press("Enter")
        assert page.locator(".details .path").inner_text() != first
        search.press("Escape")
        assert page.locator(".picture .searching, .picture.searching, svg.searching").count() == 0
        search.fill("nothing like this")
        assert page.locator("output").inner_text() == "0 found"


def test_the_picture_is_dragged_and_zoomed_about_the_pointer(chromium: Browser, tmp_path: Path) -> None:
    """What is under the pointer stays there; a drag chooses nothing."""
    chain = Workflow("chain")
    for number in range(40):
        chain = chain.then(Judge(), id=f"step-{number}")
    with opened(chromium, written(tmp_path, chain)) as page:
        page.get_by_role("button", name="1:1").click()
        at = box(page, "step-5").bounding_box()
        assert at
        page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        after = box(page, "step-5").bounding_box()
        assert after
        assert after["width"] > at["width"] * 1.5
        assert after["x"] < at["x"] + at["width"] / 2 < after["x"] + after["width"]
        page.mouse.down()
        page.mouse.move(at["x"] + 10, at["y"] + 150, steps=4)
        page.mouse.up()
        moved = box(page, "step-5").bounding_box()
        assert moved
        assert moved["y"] > after["y"] + 100
        assert page.locator(".details").count() == 0


def test_a_run_is_laid_over_the_picture(chromium: Browser, traced: Path) -> None:
    """Who edited what, who stopped it, what did not run; with texts, marked before and after."""
    with opened(chromium, traced) as page:
        summary = page.locator(".panel").inner_text()
        assert "blocked" in summary
        assert "12 input tokens" in summary
        assert "everything that was hidden" in summary
        marks = {path: box(page, path).get_attribute("data-mark") for path in ("hider", "judge", "judge#2", "last")}
        assert marks == {"hider": "edited", "judge": "tripped", "judge#2": "skipped", "last": None}
        box(page, "hider").click()
        assert page.locator(".texts mark").all_inner_texts() == ["ann@example.com", "[EMAIL]"]
        box(page, "judge").click()
        assert "score" in page.locator(".panel").inner_text()


def test_texts_with_markup_are_texts(chromium: Browser, traced: Path) -> None:
    """Nothing of it becomes an element, and what cannot be seen is shown by a sign."""
    with opened(chromium, traced) as page:
        box(page, "hider").click()
        told = page.locator(".texts").inner_text()
        assert "<img src=x onerror=alert(1)></script>␛[31m⟨U+202E⟩" in told
        assert page.locator("img").count() == 0


def test_the_policy_stops_what_got_in_all_the_same(chromium: Browser, plain: Path) -> None:
    """The last line of defence: no inline script, handler, data script, image or request."""
    page = chromium.new_page()
    page.goto(plain.as_uri())
    page.evaluate(
        """() => {
            const add = (tag, fields) => document.body.append(Object.assign(document.createElement(tag), fields));
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.hit = 1'>");
            document.body.insertAdjacentHTML("beforeend", "<b onclick='window.hit = 2' id='hurt'>x</b>");
            add("script", { textContent: "window.hit = 3" });
            add("script", { src: "data:text/javascript,window.hit=4" });
            document.getElementById("hurt").click();
        }"""
    )
    page.wait_for_timeout(100)
    assert page.evaluate("window.hit") is None
    assert page.evaluate("fetch('https://example.com').then(() => 'sent', () => 'refused')") == "refused"
    page.close()


def test_a_run_is_replayed_moment_by_moment(chromium: Browser, traced: Path) -> None:
    """Nothing of the future is shown; the slider says the moment in words."""
    with opened(chromium, traced) as page:
        page.get_by_role("button", name="Start").click()
        assert page.locator(".replay .now").inner_text() == "The run begins."
        assert page.locator(".picture g[data-mark]").count() == 0
        forward = page.get_by_role("button", name="Next")
        forward.click()
        forward.click()
        assert page.locator(".replay .now").inner_text() == "2.00 ms: step hider starts"
        assert box(page, "hider").get_attribute("data-mark") == "running"
        forward.click()
        assert box(page, "hider").get_attribute("data-mark") == "edited"
        assert page.get_by_role("slider").get_attribute("aria-valuetext") == "3.00 ms: step hider has edited"
        page.get_by_role("button", name="End").click()
        assert box(page, "judge").get_attribute("data-mark") == "tripped"


def test_a_stream_is_replayed_chunk_by_chunk(chromium: Browser, traced: Path) -> None:
    """What came in, what was held, what left."""
    with opened(chromium, traced) as page:
        page.get_by_role("button", name="Start").click()
        while "chunk 1 of 2" not in page.locator(".replay .now").inner_text():
            page.get_by_role("button", name="Next").click()
        assert page.locator(".stream .text").all_inner_texts() == ["to ann@", "4 characters", "to "]
        page.get_by_role("button", name="Next").click()
        texts = page.locator(".stream .text").all_inner_texts()
        assert texts == ["to ann@example.com now", "nothing", "to [EMAIL] now"]


def test_a_replay_plays_by_itself_and_stops_at_the_end(chromium: Browser, traced: Path) -> None:
    """Play becomes Pause, and Play again."""
    with opened(chromium, traced) as page:
        page.clock.install()
        page.get_by_role("button", name="Play").click()
        assert page.get_by_role("button", name="Pause").count() == 1
        page.clock.run_for(60_000)
        assert page.get_by_role("button", name="Play").count() == 1
        assert page.get_by_role("button", name="Next").is_disabled()
        page.get_by_role("button", name="Play").click()
        page.get_by_role("button", name="Pause").click()
        assert page.get_by_role("button", name="Play").count() == 1


def test_the_timeline_leads_to_the_step(chromium: Browser, traced: Path) -> None:
    """And to parts of the run that have no box."""
    with opened(chromium, traced) as page:
        page.locator(".timeline button", has_text="step hider").click()
        assert page.locator(".details .path").inner_text() == "hider"
        page.locator(".timeline button", has_text="process_output_stream").click()
        assert "stage process_output_stream" in page.locator(".panel").inner_text()
        assert nameless(page) == []


@pytest.mark.parametrize("width", [360, 700, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_narrow_windows_and_follows_the_colours_of_its_reader(
    chromium: Browser, traced: Path, width: int, dark: bool
) -> None:
    """No scrolling sideways; dark on dark."""
    with opened(chromium, traced, width=width, dark=dark) as page:
        assert not too_wide(page)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(22, 22, 22)" if dark else "rgb(255, 255, 255)"
        )


def test_two_hundred_steps_are_a_page_that_answers(chromium: Browser, tmp_path: Path) -> None:
    """Every box can be found and chosen."""
    many = Workflow("many")
    for number in range(200):
        many = many.then(Judge(), id=f"step-{number}")
    with opened(chromium, written(tmp_path, many)) as page:
        page.get_by_role("searchbox").fill("step-177")
        page.get_by_role("searchbox").press("Enter")
        assert page.locator(".details .path").inner_text() == "step-177"
        shown = box(page, "step-177").bounding_box()
        frame = page.locator(".picture").bounding_box()
        assert shown
        assert frame
        assert frame["y"] - 1 <= shown["y"] <= frame["y"] + frame["height"]


def test_without_scripts_the_picture_is_there(chromium: Browser, plain: Path) -> None:
    """And a word on why there is no more."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(plain.as_uri())
    assert page.locator("svg").is_visible()
    assert page.locator("noscript").inner_text() == "This page needs JavaScript to show more than a picture."
    context.close()


def test_a_badge_does_not_cover_the_head_of_an_arrow(chromium: Browser, traced: Path) -> None:
    """Arrows come in at the upper edge; the badge of a narrow box is as wide as the box."""
    with opened(chromium, traced) as page:
        edges = page.evaluate(
            """() => [...document.querySelectorAll(".picture .pill")].map((badge) => {
                const box = badge.parentNode.querySelector("rect").getBoundingClientRect();
                return [badge.getBoundingClientRect().top, box.top + box.height / 2];
            })"""
        )
        assert len(edges) >= 3
        assert all(top > middle for top, middle in edges)


def test_arrows_show_which_way_was_taken(chromium: Browser, traced: Path) -> None:
    """Those behind the step that stopped the run are pale, like the arm that was not taken."""
    with opened(chromium, traced) as page:
        assert arrow(page, "start", "step:hider") == "flow taken"
        assert arrow(page, "fork:parallel", "step:judge") == "flow taken"
        assert arrow(page, "fork:parallel", "step:judge#2") == "flow idle"
        assert arrow(page, "step:last", "end") == "flow idle"
        widths = page.evaluate(
            """() => ["taken", "idle"].map((look) =>
                getComputedStyle(document.querySelector(`.flow.${look} > .wire`)).strokeWidth)"""
        )
        assert widths == ["2.6px", "1.3px"]


def test_the_reason_of_a_verdict_stands_at_its_box(chromium: Browser, traced: Path) -> None:
    """For a screen reader, too; markup in it stays text, and the whole of it is under the pointer."""
    with opened(chromium, traced) as page:
        judge = box(page, "judge")
        assert "stops the run: said" in " ".join(judge.locator(".pill text").all_text_contents())
        assert "stops the run" in (judge.get_attribute("aria-label") or "")
        assert "<img src=x onerror=alert(1)>" in (judge.locator("title").text_content() or "")
        assert page.locator("img").count() == 0


def test_a_replay_shows_the_way_so_far(chromium: Browser, traced: Path) -> None:
    """An arrow is taken when what it leads to starts, and pale again on the way back."""
    with opened(chromium, traced) as page:
        page.get_by_role("button", name="Start").click()
        assert page.locator(".flow.taken").count() == 0
        assert page.locator(".pill").count() == 0
        for _ in range(2):
            page.get_by_role("button", name="Next").click()
        assert arrow(page, "start", "step:hider") == "flow taken"
        assert arrow(page, "step:hider", "fork:parallel") == "flow idle"
        page.get_by_role("button", name="Next").click()
        assert arrow(page, "step:hider", "fork:parallel") == "flow taken"
        page.get_by_role("button", name="Back").click()
        assert arrow(page, "step:hider", "fork:parallel") == "flow idle"
        page.get_by_role("button", name="End").click()
        assert box(page, "judge").get_attribute("data-mark") == "tripped"


def test_the_data_of_a_verdict_is_readable(chromium: Browser, tmp_path: Path) -> None:
    """Names with their values, and no JSON."""
    scores = {"scores": {"hate": 0.1, "threat": {"low": 0.2}}, "tags": ["a", "b"], "found": [{"type": "x"}], "no": []}
    verdict = replace(VERDICT, metadata=scores)
    spans = tuple(replace(span, tripwire=verdict) if span.name == "judge" else span for span in TRACE.spans)
    path = written(tmp_path, GUARD, trace=replace(TRACE, spans=spans, tripwire=verdict))
    with opened(chromium, path) as page:
        rows = page.locator(".summary .facts > tbody > tr").all_inner_texts()
        assert [" ".join(row.split()) for row in rows] == [
            "scores hate 0.1 threat low 0.2",
            "tags a, b",
            "found type x",
            "no none",
        ]


def arrow(page: Page, source: str, target: str) -> str | None:
    """The classes of an arrow, by the ids of the boxes at its ends."""
    return page.locator(f'g[data-source="{source}"][data-target="{target}"]').get_attribute("class")
