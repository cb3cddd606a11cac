"""Recorded exchanges of real providers: where they are, and what their answers say, read apart from the package."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

OWN = Path(__file__).parent / "recorded"
SHARED = Path(os.environ.get("PENSTOCK_RECORDED", Path(__file__).parents[4] / "shared" / "recorded"))


class Said(NamedTuple):
    """What an answer says."""

    text: str
    thoughts: str
    calls: list[tuple[str, Any]]
    tokens: int | None


def files(folder: Path) -> list[Path]:
    """Return the files of a folder, none where it is absent."""
    return sorted(folder.glob("*.json"))


def exchanges(path: Path, ending: str = "/chat/completions") -> list[dict[str, Any]]:
    """Return the exchanges of a file with an endpoint."""
    return [item for item in json.loads(path.read_text("utf-8")) if item["path"].endswith(ending)]


def pieces(response: Any) -> list[dict[str, Any]]:
    """Return the JSON objects of an answer: one, or those of its events."""
    if isinstance(response, dict):
        return [response]
    lines = (line[5:].strip() for line in response.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def failed(exchange: dict[str, Any]) -> bool:
    """Tell whether an exchange has no answer."""
    if exchange["status"] != 200:
        return True
    if isinstance(exchange["response"], str) and "data:" not in exchange["response"]:
        return True
    return any("error" in piece or "choices" not in piece for piece in pieces(exchange["response"]))


def said(response: Any) -> Said:
    """Return what an answer says."""
    text = thoughts = ""
    calls: dict[int, list[str]] = {}
    tokens = None
    for piece in pieces(response):
        tokens = (piece.get("usage") or {}).get("prompt_tokens", tokens)
        for choice in piece["choices"]:
            message = choice.get("delta") or choice.get("message") or {}
            content = message.get("content") or ""
            if isinstance(content, list):
                thoughts += "".join(t["text"] for p in content for t in p.get("thinking", []))
                content = "".join(p.get("text", "") for p in content)
            text += content
            details = message.get("reasoning_details") or []
            thoughts += (
                message.get("reasoning_content")
                or message.get("reasoning")
                or ("".join(detail.get("text") or detail.get("summary") or "" for detail in details))
            )
            for place, call in enumerate(message.get("tool_calls") or []):
                own = calls.setdefault(call.get("index", place), ["", ""])
                own[0] += call["function"].get("name") or ""
                own[1] += call["function"].get("arguments") or ""
    return Said(text, thoughts, [(name, json.loads(arguments or "{}")) for name, arguments in calls.values()], tokens)
