"""What a reader does, in words: open a workflow, write a text, run it."""

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect


def open_workflow(page: Page, name: str) -> None:
    """Open a workflow by its name in the side."""
    if page.url == "about:blank":
        page.goto("/")
    page.get_by_role("navigation").get_by_role("link", name=re.compile(rf"^\s*{re.escape(name)}(\s|$)")).first.click()
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


def open_reference(page: Page, reference: str) -> None:
    """Open a workflow by its reference, also one whose name is not known."""
    if page.url == "about:blank":
        page.goto("/")
    workflows = page.request.get("/api/workflows").json()["workflows"]
    (found,) = [each["id"] for each in workflows if each["reference"] == reference]
    page.goto(f"/#/workflow/{found}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def write(page: Page, text: str) -> None:
    """Write the text to run on."""
    page.get_by_role("textbox", name="Text", exact=True).fill(text)


def run(page: Page, text: str) -> Locator:
    """Run the workflow on a text, wait for the end, and return the result."""
    write(page, text)
    page.get_by_role("button", name="Run", exact=True).click()
    return result(page)


def result(page: Page) -> Locator:
    """Return the result of a run that is over."""
    found = page.get_by_role("region", name="Result")
    expect(found.locator(".verdict")).not_to_contain_text(re.compile("Waiting|Loading|Running"))
    return found


def box(page: Page, path: str) -> Locator:
    """Return the box of a step in the picture."""
    return page.locator(f'#picture-bench g[data-path="{path}"]')


def arrow(page: Page, source: str, target: str) -> Locator:
    """Return an arrow of the picture by the ids of the boxes at its ends."""
    return page.locator(f'#picture-bench g[data-source="{source}"][data-target="{target}"]')


def violations(page: Page) -> list[str]:
    """Return what axe-core finds wrong with a page."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:160]} {node['failureSummary']}" for each in found for node in each["nodes"]]
