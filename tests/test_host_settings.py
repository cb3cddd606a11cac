"""Penstock is a guest of its process: it changes no setting of the interpreter, for no moment."""

import json
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent("""
    import asyncio, gc, json, locale, logging, signal, sys, threading, time, warnings

    def settings():
        return {
            "switch interval": sys.getswitchinterval(),
            "recursion limit": sys.getrecursionlimit(),
            "digits of an int": sys.get_int_max_str_digits(),
            "garbage collection": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)],
            "frozen objects": gc.get_freeze_count(),
            "signals": [repr(signal.getsignal(one)) for one in sorted(signal.valid_signals())],
            "root logger": [logging.root.level, len(logging.root.handlers), len(logging.root.filters)],
            "logging": [logging.root.manager.disable, logging.raiseExceptions, logging.lastResort.level],
            "loop policy": type(asyncio.get_event_loop_policy()).__name__,
            "hooks": [repr(one) for one in (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook)],
            "tracing": [repr(sys.gettrace()), repr(sys.getprofile()), repr(threading.gettrace())],
            "async hooks": repr(sys.get_asyncgen_hooks()),
            "stack of threads": threading.stack_size(),
            "locale": locale.setlocale(locale.LC_ALL),
            "encoding": [sys.stdout.encoding, sys.stdout.errors],
        }

    before = settings()
    seen = []  # whatever differs while it works
    ended = threading.Event()

    def watch():
        while not ended.wait(0.0005):
            now = sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), len(gc.callbacks)
            if now != told:
                seen.append(now)

    told = sys.getswitchinterval(), gc.isenabled(), gc.get_threshold(), len(gc.callbacks)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()

    import penstock
    from penstock import Agent, Chunk, Memory, PIIDetector, Workflow
    from penstock.stores import SQLiteStorage
    from penstock.testing import ScriptedModel
    from penstock.workflows.presets import hygiene, injection, privacy, safety

    text = "Write to joe.bloggs@example.com, or call +49 170 1234567. " * 400

    async def main():
        outcome = await safety().check(text, records=True)
        assert "joe.bloggs" not in outcome.text
        await Workflow("slow").then(PIIDetector(), timeout=30).check(text)
        run = safety().start()
        async with run.process_output_stream([Chunk("text-delta", text, "1")]) as chunks:
            assert "joe.bloggs" not in "".join([chunk.text async for chunk in chunks])
        async with SQLiteStorage(":memory:") as storage:
            agent = Agent(
                ScriptedModel(["joe.bloggs@example.com"]), processors=[safety()], memory=Memory(storage),
            )
            result = await agent.generate("Hello", thread_id="t", resource_id="r")
            assert "joe.bloggs" not in result.text

    asyncio.run(main())
    for preset in (hygiene, injection, privacy, safety):
        workflow = preset()
        workflow.check_sync("Hello there")
        workflow.draw("svg"), workflow.draw("html"), workflow.diff(safety())
    Workflow("limited").then(PIIDetector(), timeout=30).check_sync(text)
    for name in penstock.__all__:
        getattr(penstock, name)

    ended.set()
    watcher.join()
    after = settings()
    print(json.dumps({"changed": [name for name in before if before[name] != after[name]], "meanwhile": seen[:5]}))
""")


@pytest.mark.rest
def test_no_setting_of_the_interpreter_differs_while_penstock_works_or_afterwards() -> None:
    """Guards on long texts, time limits, streams, an agent with a store, presets, pictures and every public name."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"changed": [], "meanwhile": []}
