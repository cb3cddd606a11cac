"""A studio on 127.0.0.1: the real server in a thread, with real worker processes."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from penstock.workflows.studio.app import Studio
from penstock.workflows.studio.listening import listening
from penstock.workflows.studio.serving import Server
from penstock.workflows.studio.settings import Settings

FILES = {
    "guards.py": """
from penstock import Workflow
from penstock.processors.guards import PIIDetector
from words import NAME

guard = Workflow(NAME).then(PIIDetector(strategy="redact", detection_types=["email"]))
""",
    "words.py": 'NAME = "guard"\n',
    "app.py": """
from penstock import Agent
from penstock.processors.guards import PIIDetector
from penstock.testing import ScriptedModel, Turn

def weather(city: str) -> str:
    "Say how the weather is."
    return f"sunny in {city}"

model = ScriptedModel([
    Turn(tool_calls=[{"name": "weather", "args": {"city": "Bern"}}]),
    "It is sunny. Write to ann@example.com for more, whenever you want to.",
])
agent = Agent(model, tools=[weather], processors=[PIIDetector()])
""",
    "odd.py": """
import os, sys, time
from penstock import Workflow, processor, InputContext

@processor
def odd(ctx: InputContext) -> None:
    "Does what the text says."
    text = ctx.text
    if text == "print":
        print('{"done": {}}'); sys.stdout.flush()
        os.write(1, b"raw bytes \\xff\\n"); print("to stderr", file=sys.stderr)
    if text == "read": print("read:", repr(sys.stdin.read()))
    if text == "hang":
        while True: time.sleep(0.01)
    if text == "crash": os._exit(3)
    if text == "abort": os.abort()
    if text == "fork":
        import subprocess
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)", "penstock-grandchild"])
        time.sleep(300)
    if text == "words": raise ValueError("x" * 5_000_000)
    if text == "copy":
        if os.fork() == 0: raise RuntimeError("the copy")
        time.sleep(0.5)
    if text == "raise": raise ValueError("<b>broken</b>")
    if text == "block": ctx.abort("because")
    if text == "flood":
        for _ in range(20_000): print("x" * 100)

odd_flow = Workflow("odd").then(odd)
""",
}


@dataclass
class Served:
    """A studio that runs."""

    studio: Studio
    url: str
    http: httpx.Client
    folder: Path

    def id(self, reference: str) -> str:
        """Return the id of an entry by the end of its reference."""
        found = self.get("/api/workflows")["workflows"]
        return next(each["id"] for each in found if each["reference"].endswith(reference))

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON of a path."""
        answer = self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, reference: str, given: Any, **more: Any) -> str:
        """Start a run; return its id."""
        answer = self.http.post("/api/runs", json={"workflow": self.id(reference), "input": given, **more})
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def run(self, reference: str, given: Any, **more: Any) -> Any:
        """Run to the end; return all that is known."""
        if isinstance(given, str):
            given = {"kind": "text", "text": given}
        return self.ended(self.start(reference, given, **more))

    def ended(self, id: str) -> Any:
        """Wait for the end of a run; return all that is known."""
        return until(lambda: self.get(f"/api/runs/{id}"), lambda run: run["state"] == "done")

    def events(self, path: str, **options: Any) -> list[tuple[int, str, Any]]:
        """Return all events of a stream that ends."""
        with self.http.stream("GET", path, **options) as answer:
            assert answer.status_code == 200
            return [*events_in(answer.iter_lines())]

    def upload(self, text: str | bytes, name: str = "rows.jsonl") -> Any:
        """Upload a file."""
        content = text.encode() if isinstance(text, str) else text
        answer = self.http.post(
            "/api/files", params={"name": name}, content=content, headers={"content-type": "application/x-ndjson"}
        )
        assert answer.status_code == 201, answer.text
        return answer.json()

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder."""
        (self.folder / name).write_text(text)


def events_in(lines: Iterator[str]) -> Iterator[tuple[int, str, Any]]:
    """Yield number, name and data of server-sent events."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            found[name] = value.removeprefix(" ")
            continue
        if "event" in found:
            yield int(found.get("id", 0)), found["event"], json.loads(found["data"])
        found = {}


def until(look: Callable[[], Any], right: Callable[[Any], bool], seconds: float = 40) -> Any:
    """Look until it is right; return what was seen."""
    end = time.monotonic() + seconds
    while not right(seen := look()):
        assert time.monotonic() < end, f"after {seconds} s: {str(seen)[:2000]}"
        time.sleep(0.03)
    return seen


@contextlib.contextmanager
def serving(folder: Path, *references: str, **settings: Any) -> Iterator[Served]:
    """Serve a studio in a thread."""
    names = tuple(f"{folder}/{each}" if ".py" in each else each for each in references)
    studio = Studio(Settings(references=names, **settings))
    listener = listening("127.0.0.1", 0)
    server = Server(uvicorn.Config(studio.app, log_level="warning", timeout_graceful_shutdown=2), studio)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started, bool)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=url, timeout=40) as http:
            yield Served(studio, url, http, folder)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()
