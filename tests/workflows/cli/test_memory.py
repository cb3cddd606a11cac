"""`penstock memory`: what a store remembers, read by eye, taken elsewhere and deleted."""

import io
import json
import sys
from pathlib import Path

import anyio
import pytest

from penstock import Message, SQLiteStorage, TextPart, ToolPart
from penstock.engine.values.stored import Thread
from penstock.workflows.cli import main

HOSTILE = "red \x1b[31m\u202e text"


async def filled(path):
    """Make a store with two threads of one resource, and one of another's."""
    store = SQLiteStorage(path)
    await store.create_thread(Thread("t1", "ann", title="Rome", metadata={"plan": "paid"}))
    call = ToolPart("c1", "weather", {"city": "Rome"}, "result", "sun")
    said = [
        Message.user("Hello", id="m1"),
        Message.assistant([TextPart(HOSTILE), call], id="m2"),
        Message.user("Bye", id="m3"),
    ]
    await store.save_messages([said_in(message, "t1", "ann") for message in said])
    await store.save_messages([said_in(Message.user("Ho", id="m4"), "t2", "ann")])
    await store.save_messages([said_in(Message.user("Hi", id="m5"), "t3", "bob")])
    await store.put_working_memory("resource", "ann", "# Ann\n- Rome", expected=0, author="run-1")
    await store.put_working_memory("thread", "t1", "short", expected=0)
    await store.close()


def said_in(message, thread, resource):
    """Return a message in a thread."""
    return Message(message.role, message.parts, message.id, None, thread, resource)


@pytest.fixture
def store(world: Path):
    """Return the path of a store."""
    path = str(world / "chat.db")
    anyio.run(filled, path)
    return path


def rows(text):
    """Return the lines of JSON."""
    return [json.loads(line) for line in text.splitlines()]


def test_threads_are_listed_the_last_changed_first(run, store) -> None:
    """With whose they are."""
    ran = run("memory", "list", "--store", store)
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines() if line.startswith("t")][1:] == ["t3", "t2", "t1"]
    assert "Rome" in ran.out
    assert ran.out.endswith("3 threads\n")
    ran = run("memory", "list", "--store", store, "--resource", "ann", "--limit", "1")
    assert "t2" in ran.out
    assert ran.out.endswith("1 thread, and more\n")
    found = rows(run("memory", "list", "--store", store, "-f", "jsonl", "-n", "2").out)
    assert [row["id"] for row in found] == ["t3", "t2"]


def test_a_thread_is_shown_as_it_was_said(run, store) -> None:
    """With what is known, and without what would steer the terminal."""
    ran = run("memory", "show", "--store", store, "t1")
    assert ran.code == 0
    for told in ("resource: ann", "title: Rome", '"plan": "paid"', "  # Ann\n  - Rome\n", "by run-1", "  short\n"):
        assert told in ran.out
    assert ran.out.index("Hello") < ran.out.index('→ weather {"city": "Rome"}') < ran.out.index("Bye")
    assert '← weather "sun"' in ran.out
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out


def test_only_the_last_messages_are_shown_if_that_is_asked_for(run, store) -> None:
    """And that there were others."""
    ran = run("memory", "show", "--store", store, "t1", "--last", "1")
    assert "Bye" in ran.out
    assert "Hello" not in ran.out
    assert "--all" in ran.out
    assert "Hello" in run("memory", "show", "--store", store, "t1", "--last", "1", "--all").out
    found = rows(run("memory", "show", "--store", store, "t1", "-f", "jsonl").out)
    assert [next(iter(row)) for row in found] == ["thread", *["working_memory"] * 2, *["message"] * 3]


def test_a_wrong_option_is_told_by_the_commands_name(run, store) -> None:
    """As one would type it."""
    ran = run("memory", "show", "--store", store, "t1", "--last", "0")
    assert ran.code == 2
    assert "\npenstock memory show: error: argument -n/--last" in ran.err


def test_what_is_exported_is_imported_as_it_was(run, store, world: Path) -> None:
    """Into another store; twice is as good as once."""
    assert run("memory", "export", "--store", store, "-o", "all.jsonl").code == 0
    for _ in range(2):
        ran = run("memory", "import", "--store", "copy.db", "all.jsonl")
        assert (ran.code, ran.out) == (0, "imported 3 × thread, 5 × message, 2 × working memory\n")
    assert run("memory", "export", "--store", "copy.db", "-o", "again.jsonl").code == 0
    first, second = (rows((world / name).read_text("utf-8")) for name in ("all.jsonl", "again.jsonl"))
    assert [settled(row) for row in first] == [settled(row) for row in second]
    assert first[2]["thread"]["created_at"] == second[2]["thread"]["created_at"]


def settled(row):
    """Return a line without what tells who stored it when."""
    kind, value = next(iter(row.items()))
    if isinstance(value, dict):
        return kind, {name: item for name, item in value.items() if name not in ("updated_at", "author", "version")}
    return kind, value


def test_threads_are_exported_by_name_and_by_resource(run, store) -> None:
    """On stdout, ready to be piped on."""
    found = rows(run("memory", "export", "--store", store, "t2").out)
    assert [next(iter(row)) for row in found] == ["penstock", "working_memory", "thread", "message"]
    found = rows(run("memory", "export", "--store", store, "--resource", "bob").out)
    assert [row["thread"]["id"] for row in found if "thread" in row] == ["t3"]
    assert run("memory", "export", "--store", store, "t2", "--resource", "ann").code == 2


def test_a_store_is_imported_through_a_pipe(run, store) -> None:
    """From stdin."""
    exported = run("memory", "export", "--store", store, "t2").out
    assert run("memory", "import", "--store", "copy.db", "-", stdin=exported.encode()).code == 0
    assert "Ho" in run("memory", "show", "--store", "copy.db", "t2").out


HEAD = '{"penstock":"memory","version":1}'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("secret", 1),
        ('{"penstock":"memory","version":2}', 1),
        (f"{HEAD}\n\nsecret", 3),
        (f'{HEAD}\n{{"secret":1}}', 2),
        (f'{HEAD}\n{{"thread":{{"id":"secret"}}}}', 2),
        (f'{HEAD}\n{{"thread":{{"id":"a","resource_id":"b","created_at":"secret"}}}}', 2),
        (f'{HEAD}\n{{"thread":{{"id":"a","resource_id":"b","metadata":"secret"}}}}', 2),
        (f'{HEAD}\n{{"message":{{"role":"secret"}}}}', 2),
        (f'{HEAD}\n{{"message":{{"role":"user","parts":[{{"type":"text","text":"secret"}}]}}}}', 2),
        (f'{HEAD}\n{{"working_memory":{{"scope":"secret","key":"a","text":"b"}}}}', 2),
    ],
)
def test_a_line_that_is_malformed_is_told_and_not_quoted(run, world: Path, text, line) -> None:
    """Exit code 3."""
    (world / "bad.jsonl").write_text(text, "utf-8")
    ran = run("memory", "import", "--store", "copy.db", "bad.jsonl")
    assert ran.code == 3
    assert f"line {line}:" in ran.err
    assert "secret" not in ran.err


def test_what_stands_before_a_malformed_line_is_stored(run, store, world: Path) -> None:
    """And the rest can be imported once it is mended."""
    exported = run("memory", "export", "--store", store, "t1").out
    (world / "bad.jsonl").write_text(f"{exported}oops\n", "utf-8")
    ran = run("memory", "import", "--store", "copy.db", "bad.jsonl")
    assert (ran.code, ran.out) == (3, "imported 1 × thread, 3 × message, 2 × working memory\n")
    assert "Bye" in run("memory", "show", "--store", "copy.db", "t1").out


def test_a_thread_of_another_resource_is_not_imported_into(run, store, world: Path) -> None:
    """Its owner stays."""
    stolen = json.dumps({"thread": {"id": "t3", "resource_id": "ann"}})
    (world / "bad.jsonl").write_text(f"{HEAD}\n{stolen}\n", "utf-8")
    ran = run("memory", "import", "--store", store, "bad.jsonl")
    assert ran.code == 2
    assert "belongs to another resource" in ran.err


def test_deleting_asks_first(run, store, monkeypatch) -> None:
    """Where there is nobody to ask, it has to be said."""
    ran = run("memory", "delete", "--store", store, "t1")
    assert (ran.code, "--yes" in ran.err) == (2, True)
    for answer, code in (("n\n", 2), ("\n", 2), ("y\n", 0)):
        terminal = io.StringIO(answer)
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", terminal)
        assert main(["memory", "delete", "--store", store, "t1"]) == code
    assert run("memory", "show", "--store", store, "t1").code == 2


def test_all_that_is_a_threads_own_is_deleted(run, store) -> None:
    """Its messages and its working memory; not its resource's."""
    ran = run("memory", "delete", "--store", store, "t1", "t3", "--yes")
    assert (ran.code, ran.out) == (0, "deleted 2 threads\n")
    left = rows(run("memory", "export", "--store", store).out)
    assert [next(iter(row)) for row in left] == ["penstock", "working_memory", "thread", "message"]


def test_where_one_is_missing_none_is_deleted(run, store) -> None:
    """A slip is told before anything is done."""
    ran = run("memory", "delete", "--store", store, "t1", "t9", "--yes")
    assert (ran.code, "'t9'" in ran.err) == (2, True)
    assert run("memory", "show", "--store", store, "t1").code == 0


def test_all_that_is_a_resources_is_forgotten(run, store) -> None:
    """Its threads and what is known of it; not what is others'."""
    ran = run("memory", "forget", "--store", store, "ann")
    assert (ran.code, "--yes" in ran.err) == (2, True)
    ran = run("memory", "forget", "--store", store, "ann", "--yes")
    assert (ran.code, ran.out) == (0, "forgot 1 resource with 2 threads\n")
    left = rows(run("memory", "export", "--store", store).out)
    assert [next(iter(row)) for row in left] == ["penstock", "thread", "message"]
    assert left[1]["thread"]["resource_id"] == "bob"


def test_who_is_not_known_cannot_be_forgotten(run, store) -> None:
    """A slip is told before anything is done; who has left only a working memory is known."""
    ran = run("memory", "forget", "--store", store, "ann", "t1", "--yes")
    assert (ran.code, "'t1'" in ran.err) == (2, True)
    assert run("memory", "show", "--store", store, "t1").code == 0
    run("memory", "delete", "--store", store, "t1", "t2", "--yes")
    ran = run("memory", "forget", "--store", store, "ann", "--yes")
    assert (ran.code, ran.out) == (0, "forgot 1 resource with 0 threads\n")
    assert run("memory", "forget", "--store", store, "ann", "--yes").code == 2


def test_a_store_that_there_is_not_is_told(run, world: Path, monkeypatch) -> None:
    """Looking makes no file; the environment may name the store."""
    ran = run("memory", "list", "--store", "nope.db")
    assert (ran.code, "nope.db" in ran.err) == (2, True)
    assert not (world / "nope.db").exists()
    monkeypatch.delenv("PENSTOCK_STORE", raising=False)
    assert run("memory", "list").code == 2
    monkeypatch.setenv("PENSTOCK_STORE", "env.db")
    assert "env.db" in run("memory", "list").err


def test_a_file_that_is_no_store_is_told(run, world: Path) -> None:
    """And not quoted."""
    (world / "text.db").write_text("secret " * 200, "utf-8")
    ran = run("memory", "list", "--store", "text.db")
    assert ran.code == 2
    assert "secret" not in ran.err


def test_an_export_does_not_write_over_its_store(run, store) -> None:
    """Nor does an import read it."""
    assert run("memory", "export", "--store", store, "-o", store).code == 2
    assert run("memory", "import", "--store", store, store).code == 2
