"""Requests that wait for people, in the page: seen, decided about, and gone on with; with the mouse and with keys."""

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.workflows.studio.browser.conftest import Studio
from tests.workflows.studio.browser.steps import open_reference, violations

QUESTION = "Refund order A-1042, I am ada@example.com"


def ask(page: Page, reference: str, text: str = QUESTION) -> None:
    """Ask an agent, and follow the link to the request that waits."""
    open_reference(page, reference)
    page.get_by_role("textbox", name="Message to the agent").fill(text)
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("link", name="review it").click()
    expect(page.get_by_role("heading", level=1, name="Reviews")).to_be_visible()


def call(page: Page, tool: str) -> Locator:
    """Return the part about a call or a question."""
    return page.get_by_role("region", name=re.compile(f"(Call|Question) of {tool}"))


def refunded(studio: Studio) -> str:
    """Return what the tool has written."""
    path = Path(studio.folder, "refunded.txt")
    return path.read_text("utf-8") if path.exists() else ""


def test_a_call_is_approved_with_other_arguments_and_the_run_is_shown(page: Page, studio: Studio) -> None:
    ask(page, "refunds.py:agent")
    detail = page.get_by_role("article", name="Request of refunds")
    expect(detail).to_contain_text("Refund order A-1042, I am [EMAIL]")
    expect(detail).not_to_contain_text("ada@example.com")
    refund = call(page, "refund")
    expect(refund).to_contain_text('"amount": 49.9')
    refund.get_by_role("button", name="Edit arguments").click()
    written = refund.get_by_role("textbox", name=re.compile("Other arguments"))
    written.fill("{")
    refund.get_by_role("button", name="Approve with these").click()
    expect(refund.get_by_role("alert")).to_contain_text("What you wrote is not JSON")
    written.fill('{"order": "A-1042", "amount": 20, "note": "by hand"}')
    refund.get_by_role("button", name="Approve with these").click()
    expect(page.get_by_role("log", name="Conversation")).to_contain_text("the money is back in three days")
    assert "A-1042 20.0 by hand\n" in refunded(studio)


def test_a_call_is_rejected_with_keys_alone(page: Page, studio: Studio) -> None:
    ask(page, "refunds.py:agent")
    before = refunded(studio)
    expect(call(page, "refund")).to_contain_text("waits for approval")
    page.locator("h1").click()
    page.keyboard.press("d")
    expect(page.get_by_placeholder("Reason for the model")).to_be_focused()
    page.keyboard.type("the parcel has come")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log", name="Conversation")).to_contain_text("the parcel has come")
    page.keyboard.press("r")
    page.get_by_role("tab", name="Ended").click()
    page.get_by_role("region", name="Requests").get_by_role("link").first.click()
    expect(page.get_by_role("region", name="Request", exact=True)).to_contain_text("the parcel has come")
    assert refunded(studio) == before


def test_a_question_is_answered_in_the_form_of_its_schema(page: Page) -> None:
    ask(page, "refunds.py:desk", "Write to ada@example.com")
    question = call(page, "human-review")
    expect(question).to_contain_text("May this go to the desk?")
    expect(question).to_contain_text("Write to [EMAIL]")
    question.get_by_role("textbox", name=re.compile("^text")).fill("Write to the customer")
    question.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("log", name="Conversation")).to_contain_text("We look into it.")


def test_what_others_ask_and_decide_is_seen_without_a_reload(page: Page) -> None:
    page.goto("/#/reviews")
    expect(page.get_by_role("heading", level=1, name="Reviews")).to_be_visible()
    workflows = page.request.get("/api/workflows").json()["workflows"]
    (found,) = [each["id"] for each in workflows if each["reference"] == "refunds.py:agent"]
    text = {"kind": "text", "text": "Refund it, says somebody else"}
    page.request.post("/api/runs", data={"workflow": found, "input": text})
    requests = page.get_by_role("region", name="Requests", exact=True)
    entry = requests.get_by_role("link", name=re.compile("says somebody else"))
    entry.click()
    expect(call(page, "refund")).to_contain_text("waits for approval")
    run = page.url.rpartition("/")[2]
    page.request.post(f"/api/reviews/{run}/reject", data={"reason": "no", "by": "kim"})
    expect(call(page, "refund")).to_contain_text("rejected by kim")
    page.get_by_role("button", name="Go on here").click()
    expect(page.get_by_role("log", name="Conversation")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reviews_are_for_everybody(page: Page, scheme: Literal["light", "dark"]) -> None:
    """No part stands in the way of assistive technology, in any colours; a narrow window shows all of it."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    ask(page, "refunds.py:desk" if scheme == "dark" else "refunds.py:agent")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
