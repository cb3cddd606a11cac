"""Pictures pass where the product makes a picture of them, and nowhere else; PDFs are read another way."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from penstock.workflows.hooks.guarding import HookGuard
from tests.workflows.hooks.conftest import KEY, Call, keys_hidden

pytestmark = pytest.mark.anyio

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(200)).decode()
HIDING = base64.b64encode(b"\x89PNG\r\n\x1a\n" + f" KEY={KEY} ".encode() * 3).decode()


def read(kind: str, body: str) -> dict[str, Any]:
    """The result of Claude Code's Read for a picture or a PDF."""
    return {"type": kind, "file": {"base64": body, "type": f"{kind}/png", "originalSize": 1}}


async def result(call: Call, response: Any) -> Any:
    """The result that the model reads in place of another; None: the original."""
    said = await call("PostToolUse", tool_name="Read", tool_input={}, tool_use_id="t1", tool_response=response)
    return said.get("hookSpecificOutput", {}).get("updatedToolOutput")


@pytest.mark.parametrize(
    "response",
    [
        read("image", PICTURE),
        [{"type": "image", "data": PICTURE, "mimeType": "image/png"}],
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}],
        {"stdout": f"data:image/png;base64,{PICTURE}", "stderr": "", "isImage": True},
    ],
)
async def test_a_picture_passes(claude: Call, response: Any) -> None:
    """In each form in which a product makes a picture of it."""
    assert await result(claude, response) is None


async def test_a_picture_stays_in_a_result_that_is_changed(claude: Call) -> None:
    """Also beside texts that look like its mark."""
    blocks = [{"type": "text", "text": "(a picture)"}, {"type": "image", "data": PICTURE, "mimeType": "image/png"}]
    left = await result(claude, [*blocks, {"type": "text", "text": f"KEY={KEY}"}])
    assert left == [*blocks, {"type": "text", "text": "KEY=[API-KEY]"}]


@pytest.mark.parametrize("response", [{"stdout": HIDING, "stderr": ""}, HIDING, {"type": "text", "text": HIDING}])
async def test_a_text_that_begins_like_a_picture_is_read_as_a_text(claude: Call, response: Any) -> None:
    """The model can decode base64, too."""
    left = await result(claude, response)
    assert left is not None
    assert HIDING not in str(left)


async def test_a_result_that_is_too_long_is_withheld(claude: Call) -> None:
    """The server answers other calls, too; the model can read it in parts."""
    assert "in parts" in str(await result(claude, {"stdout": "line\n" * 300_000, "stderr": ""}))


async def test_a_pdf_is_withheld_with_the_way_to_read_it(claude: Call) -> None:
    """The output of pdftotext is a text."""
    left = await result(claude, read("pdf", PDF))
    assert "pdftotext" in str(left)
    assert PDF not in str(left)


@pytest.mark.parametrize(("unread", "passed"), [("none", []), ("pictures", ["image"]), ("all", ["image", "pdf"])])
async def test_the_owner_says_which_bodies_pass(unread: Any, passed: list[str]) -> None:
    """None, pictures, or all."""
    guard = HookGuard(keys_hidden, "claude-code", unread)
    found: list[str] = []
    for kind, body in (("image", PICTURE), ("pdf", PDF)):
        decided = await guard.result(guard.session("s"), "Read", read(kind, body), "t1", arguments={})
        found += [kind] if decided.action == "pass" else []
    assert found == passed
