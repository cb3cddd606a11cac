"""`penstock eval`: labelled rows in, figures out, and what a build is told."""

import json
import pickle
import struct
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from penstock.workflows.cli.exit_codes import Exit

GUARDS = '''
from penstock import Processor, Workflow

class Scored(Processor):
    """Blocks texts whose number reaches a threshold."""
    id = "scored"
    edits = "nothing"
    def __init__(self, threshold: float = 0.5) -> None:
        self.threshold = threshold
    def process_input(self, ctx):
        if ctx.text == "crash":
            raise ValueError(ctx.text)
        score = float(ctx.text.split()[0])
        ctx.note(scores={"bad": score})
        if score >= self.threshold:
            ctx.abort("bad", metadata={"categories": {"bad": score}})

class Later(Scored):
    id = "scored"
    async def process_input(self, ctx):
        return Scored.process_input(self, ctx)

guard = Workflow("guard").then(Scored())
strict = Workflow("strict").then(Scored(0.2))
later = Workflow("later").then(Later())
'''

ROWS = [
    {"id": "a", "text": "0.9 <b>", "label": True, "lang": "en"},
    {"id": "b", "text": "0.3 b", "label": True, "lang": "de"},
    {"id": "c", "text": "0.6 | c", "label": False, "lang": "de"},
    {"id": "d", "text": "0.1 d", "label": False, "lang": "en"},
]


@pytest.fixture
def ask(world, run, lines):
    """Return a function that evaluates a workflow of scores on rows in a file."""
    (world / "scores.py").write_text(GUARDS, "utf-8")

    def call(*options: str, rows=ROWS, guard="guard"):
        (world / "rows.jsonl").write_bytes(lines(*rows))
        return run("eval", f"scores.py:{guard}", "rows.jsonl", *options)

    return call


def test_figures_as_json(ask) -> None:
    """In the documented form."""
    ran = ask("--format", "json", "--by", "lang")
    made = json.loads(ran.out)
    assert (ran.code, made["penstock"]) == (Exit.OK, "evaluation/1")
    verdicts = made["whole"]["verdicts"]
    assert [verdicts[name] for name in ("right", "wrong", "missed", "passed")] == [1, 1, 1, 1]
    assert made["steps"][0]["scores"]["auc"] == 0.75
    assert [each["value"] for each in made["whole"]["slices"]] == ["de", "en"]


@pytest.mark.parametrize("options", [("--jobs", "2"), ("--jobs", "1")])
def test_figures_do_not_depend_on_the_processes(ask, options) -> None:
    """Nor on how rows are checked: async steps have the same figures."""

    def figures(*more, **how):
        made = json.loads(ask("--format", "json", *more, **how).out)
        for part in (made["whole"], *made["steps"]):
            part.pop("latency")
        return {name: value for name, value in made.items() if name != "workflow"}

    rows = [{"text": f"{number / 300} x", "label": number % 3 == 0, "lang": str(number % 5)} for number in range(300)]
    expected = figures("--by", "lang", rows=rows)
    assert figures("--by", "lang", *options, rows=rows) == expected
    assert figures("--by", "lang", *options, rows=rows, guard="later") == expected


def test_a_condition_that_holds_fails_the_build(ask) -> None:
    """With exit code 1 and a line that says which; rows that could not be evaluated count more: exit code 3."""
    ran = ask("--fail-if", "recall < 0.9", "--fail-if", "slice(lang=en).recall < 1", "--by", "lang")
    assert (ran.code, ran.err) == (Exit.FOUND, "penstock: fails: recall < 0.9 (recall is 0.5)\n")
    assert ask("--fail-if", "recall < 0.5").code == Exit.OK
    crashed = ask("--format", "json", "--fail-if", "recall < 0.9", rows=[*ROWS, {"text": "crash", "label": True}])
    assert (crashed.code, json.loads(crashed.out)["rows"]["skipped"]) == (Exit.INCOMPLETE, 1)


@pytest.mark.rest
def test_a_changed_option_is_compared_with_the_workflow_as_it_is(ask) -> None:
    """In other processes, too."""
    for options in ((), ("--jobs", "2")):
        ran = ask("--set", "scored.threshold=.2", "--format", "json", *options)
        made = json.loads(ran.out)["comparison"]
        assert (ran.code, made["baseline"], made["better"], made["worse"]) == (Exit.OK, "guard unchanged", 1, 0)
    assert "there is no such step; did you mean 'scored'" in ask("--set", "score.threshold=.2").err
    assert "there is no such option" in ask("--set", "scored.limit=.2").err


@pytest.mark.rest
def test_a_baseline_may_be_any_workflow(ask) -> None:
    """By its name."""
    made = json.loads(ask("--baseline", "scores.py:strict", "--format", "json", "--jobs", "2").out)["comparison"]
    assert (made["baseline"], made["passed_now"], made["worse"]) == ("scores.py:strict", 1, 1)


def test_a_day_and_a_threshold_by_rate(ask) -> None:
    """With too few rows, it says how many are needed."""
    ran = ask("--traffic", "2000", "--base-rate", ".1%", "--alarms-a-day", "3", "--examples", "1")
    assert "A day with 2,000 rows, of which 0.10 % have something to find" in ran.out
    assert "No threshold is recommended" in ran.out
    rows = [{"text": f"{number / 400} x"} for number in range(400)]
    free = " ".join(ask("--rate", "0.02", rows=rows).out.split())
    assert "It is chosen by the rate alone: nobody knows how many of these rows have something to find." in free
    assert "No row says whether there is something to find" in free


def test_rows_of_a_table_and_of_stdin(run, world, lines) -> None:
    """Stdin is read once, and its rows may be checked several times."""
    (world / "scores.py").write_text(GUARDS, "utf-8")
    (world / "rows.csv").write_text("body,toxic,lang\n0.9,yes,en\n0.1,no,de\n0.8,,de\n", "utf-8")
    ran = run("eval", "scores.py:guard", "rows.csv", "--text", "body", "--label", "toxic", "--format", "json")
    assert json.loads(ran.out)["rows"] == {
        "all": 3, "labelled": 2, "positives": 1, "negatives": 1, "skipped": 0, "problems": [],
    }  # fmt: skip
    ran = run("eval", "scores.py:guard", "-", "--repeat", "2", "--format", "json", stdin=lines(*ROWS))
    assert json.loads(ran.out)["repeats"]["runs"] == 2


def test_reports_name_rows_and_quote_none_of_their_texts(ask, world) -> None:
    """Unless texts are asked for; then they are no markup."""
    for name in ("r.md", "r.html", "r.xml", "r.json"):
        assert ask("-o", name).code == Exit.OK
        assert "0.9 &lt;b" not in (world / name).read_text("utf-8")
        assert "0.6 | c" not in (world / name).read_text("utf-8")
    page = (world / "r.html").read_text("utf-8")
    assert 'href="#rows-0-12"' in page
    assert 'id="rows-0-12"' in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    ask("-o", "r.html", "--texts")
    page = (world / "r.html").read_text("utf-8")
    assert "0.9 &lt;b&gt;" in page
    assert "<b>" not in page
    ask("-o", "r.md", "--texts")
    table = next(line for line in (world / "r.md").read_text("utf-8").splitlines() if "id c" in line)
    assert "0.6 \\| c" in table


def test_junit_has_a_test_for_each_condition(ask) -> None:
    """A build shows which failed."""
    ran = ask("--format", "junit", "--fail-if", "recall < 0.9", "--fail-if", "rows < 1")
    suite = ET.fromstring(ran.out)  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    failed = {case.get("name"): case.find("failure") is not None for case in suite.iter("testcase")}
    assert failed == {"every row could be evaluated": False, "not recall < 0.9": True, "not rows < 1": False}


def test_undecided_rows_are_written_as_they_came(ask, world) -> None:
    """With a place for the label; the file is one to evaluate."""
    ask("--undecided", "todo.jsonl", rows=[{"text": "0.48 x", "lang": "en"}, {"text": "0.1 y"}, *ROWS])
    written = [json.loads(line) for line in (world / "todo.jsonl").read_text("utf-8").splitlines()]
    assert [(row["text"], row["label"], row["review"]["step"]) for row in written] == [
        ("0.48 x", None, "scored"),
        ("0.1 y", None, "scored"),
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--traffic", "10"), "if you do not know it, take 0.001"),
        (("--alarms-a-day", "3"), "--alarms-a-day needs --traffic"),
        (("--label", "toxic"), "none of the first 4 rows has the column 'toxic'"),
        (("--label", "a", "--label", "b"), "name the step of a further one"),
        (("--set", "threshold=1"), "--set takes STEP.OPTION=VALUE"),
        (("--fail-if", "recal < 1"), "did you mean recall"),
        (("--type", "x"), "--type takes LABEL=TYPE"),
        (("-o", "rows.jsonl"), "rows.jsonl is the input"),
        (("-o", "scores.py"), "is code that was loaded"),
        (("--base-rate", "1"), "not a part between 0 and 1"),
        (("--alarms-a-day", "0"), "not a number above 0"),
    ],
)
def test_wrong_usage_says_what_to_do(ask, options, problem) -> None:
    """With exit code 2, before anything runs."""
    ran = ask(*options)
    assert ran.code == Exit.USAGE
    assert problem in ran.err


def test_the_example_of_the_page_has_the_rows_that_it_says(run) -> None:
    """54 questions, 18 of which are attacks, in two languages."""
    rows = Path(__file__).parents[3] / "examples" / "data" / "labelled.jsonl"
    made = json.loads(run("eval", "injection", str(rows), "--by", "lang", "--format", "json").out)
    assert [made["rows"][name] for name in ("all", "positives", "negatives")] == [54, 18, 36]
    assert {each["value"] for each in made["whole"]["slices"]} == {"en", "de"}


def test_tables_of_rows_without_labels_have_no_empty_columns(ask) -> None:
    """There are only shares of flagged rows."""
    out = ask("--by", "lang", rows=[{"text": f"{number / 40} x", "lang": "en"} for number in range(40)]).out
    assert "flagged" in out
    assert "recall" not in out
    assert "precision" not in out


@pytest.mark.rest
def test_spans_do_not_depend_on_the_processes(run, world, lines) -> None:
    """Guards are heard where they run."""
    row = {"text": "mail ann@example.com", "spans": [{"start": 5, "end": 20, "type": "email"}]}
    (world / "rows.jsonl").write_bytes(lines(*[row] * 20, {"text": "fine", "spans": []}))
    for jobs in ("1", "2"):
        made = json.loads(run("eval", "privacy", "rows.jsonl", "--jobs", jobs, "--format", "json").out)
        found = {each["type"]: each["exact"]["right"] for each in made["whole"]["spans"]}
        assert found == {"": 20, "email": 20}


@pytest.mark.parametrize(("width", "shown"), [("80", False), ("160", True)])
def test_a_narrow_terminal_shows_many_columns_without_intervals(ask, monkeypatch, width, shown) -> None:
    """Their words would be cut; the table of the whole workflow has them in any width."""
    monkeypatch.setenv("COLUMNS", width)
    lines = ask().out.splitlines()
    step = next(line for line in lines if line.split()[:1] == ["scored"])
    assert ("(" in step) is shown
    assert "(" in next(line for line in lines if line.split()[:1] == ["recall"])
    assert not any("…" in line for line in lines if "flagged" in line)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_no_cell_is_cut_or_broken_within_a_word(ask, monkeypatch, width) -> None:
    """Tables that do not fit have no intervals, then narrow gaps, and are lines at last."""
    monkeypatch.setenv("COLUMNS", str(width))
    out = ask("--by", "lang", "--fail-if", "recall.low < 0.9", "--baseline", "scores.py:strict").out
    assert "…" not in out
    words = set(out.replace(":", " ").split())
    assert {"flagged", "precision", "threshold", "recall.low"} <= words


@pytest.mark.rest
def test_the_number_of_rows_to_collect_is_told_at_one_place(ask) -> None:
    """It is the largest of those of the day and of each threshold."""
    options = ("--traffic", "2000", "--base-rate", ".1%", "--alarms-a-day", "3")
    out = ask(*options).out
    after = out[out.index("Rows to collect") :].splitlines()
    told = next(line.split()[-1] for line in after if "with nothing to find" in line)
    assert out.count(told) == 1
    made = json.loads(ask(*options, "--format", "json").out)
    assert made["collect"]["negatives"] == int(told.replace(",", ""))
    assert made["traffic"]["false_alarms"]["needed"] <= made["collect"]["negatives"]
    enough = [{"id": at, "text": f"{at % 2}.0", "label": at % 2 == 1} for at in range(2000)]
    assert "Rows to collect" not in ask(rows=enough).out


def test_the_threshold_in_force_stands_among_the_others(ask) -> None:
    """With the figures of the step as it is; ``--set`` shows the changed one."""
    for options, told, recall in (((), 0.5, "50.0"), (("--set", "scored.threshold=.2"), 0.2, "100.0")):
        out = ask(*options).out
        assert f"In force: a threshold of {told:g}." in out
        force = next(line for line in out.splitlines() if line.startswith(" in force"))
        assert force.split("%")[1].split()[-1] == recall


def test_a_guard_with_thresholds_by_category_tells_each(run, world, lines) -> None:
    """Those of its detector, or of the options."""
    (world / "policy.yaml").write_text("penstock: 1\nsteps: [{use: moderation, with: {threshold: {hate: 0.25}}}]\n")
    (world / "rows.jsonl").write_bytes(lines({"text": "hello", "label": False}))
    limits = json.loads(run("eval", "policy.yaml", "rows.jsonl", "-f", "json").out)["steps"][0]["scores"]["limits"]
    assert limits["hate"] == 0.25
    assert len(set(limits.values())) > 1
    assert "In force: 0.25 for hate" in " ".join(run("eval", "policy.yaml", "rows.jsonl").out.split())


def test_recall_at_a_rate_is_told_only_of_enough_rows(ask) -> None:
    """Below 73 rows with nothing to find, not even 5 % can be shown to be kept."""
    rows = [{"id": at, "text": f"{at % 100 / 100} x", "label": at % 100 > 60} for at in range(800)]
    assert "At false alarms of" not in ask().out
    many = " ".join(ask(rows=rows).out.split())
    assert "At false alarms of 5.00 % the recall is" in many
    assert "At false alarms of 1.00 % the recall is" in many
    assert "At false alarms of 0.10 %" not in many
    assert "One half chose the threshold" in " ".join(ask("--rate", "0.05", rows=rows).out.split())


STOPPING = """
from pathlib import Path
from penstock import Processor, Workflow

class Counted(Processor):
    id = "counted"
    edits = "nothing"
    def process_input(self, ctx):
        if ctx.text == "stop" and Path("stop").exists():
            raise KeyboardInterrupt
        with open("seen", "a") as seen:
            seen.write(f"{ctx.text}\\n")
        ctx.note(scores={"bad": len(ctx.text) / 10})
        if "x" in ctx.text:
            ctx.abort("x")

guard = Workflow("guard").then(Counted())
"""


@pytest.mark.parametrize("more", [(), ("--repeat", "2"), ("--limit", "6"), ("--baseline", "stopping.py:guard")])
def test_an_interrupted_evaluation_goes_on_where_it_ended(run, world, lines, more) -> None:
    """No row is checked twice, the figures are those of one run, and the file is gone in the end."""
    (world / "stopping.py").write_text(STOPPING, "utf-8")
    texts = ["a", "x", "bb", "stop", "xx", "ccc", "x", "d"]
    (world / "rows.jsonl").write_bytes(lines(*[{"text": one, "label": one[0] == "x"} for one in texts]))
    command = ("eval", "stopping.py:guard", "rows.jsonl", "-f", "json", *more)
    expected = json.loads(run(*command).out)
    whole = (world / "seen").read_text().splitlines()
    (world / "seen").unlink()
    (world / "stop").touch()
    stopped = run(*command, "--resume", "part")
    assert (stopped.code, stopped.out) == (Exit.INTERRUPTED, "")
    assert "the same command goes on from here" in stopped.err
    (world / "stop").unlink()
    ran = run(*command, "--resume", "part")
    assert "goes on behind 3 rows that were checked before" in ran.err
    assert (world / "seen").read_text().splitlines() == whole
    assert not (world / "part").exists()
    made = json.loads(ran.out)
    for each in (made, expected):
        for part in (each["whole"], *each["steps"]):
            part.pop("latency")
    assert made == expected


def test_verdicts_of_another_evaluation_are_refused(run, world, lines) -> None:
    """Other rows, other options, another file, or a damaged one; half a frame at its end is dropped."""
    (world / "stopping.py").write_text(STOPPING, "utf-8")
    (world / "rows.jsonl").write_bytes(lines({"text": "a", "label": False}, {"text": "stop", "label": False}))
    (world / "stop").touch()
    command = ("eval", "stopping.py:guard", "rows.jsonl", "--resume", "part")
    assert run(*command).code == Exit.INTERRUPTED
    assert "belongs to another evaluation" in run(*command, "--context", '{"a": 1}').err
    kept = (world / "part").read_bytes()
    (world / "part").write_bytes(kept[:-1])
    assert "goes on behind" not in run(*command).err
    evil = pickle.dumps(print)
    (world / "part").write_bytes(kept.partition(b"\n")[0] + b"\n" + struct.pack("<BI", 0, len(evil)) + evil)
    assert "is damaged" in run(*command).err
    (world / "part").write_text("mine")
    assert "was not written by it" in run(*command).err
    assert (world / "part").read_text() == "mine"
    (world / "rows.jsonl").write_bytes(lines({"text": "a", "label": False}))
    (world / "part").write_bytes(kept)
    assert "belongs to another evaluation" in run(*command).err
    assert "--resume needs rows in files" in run("eval", "stopping.py:guard", "-", "--resume", "part").err


def test_the_cost_of_judges_follows_from_prices(run, world, lines) -> None:
    """Given ones; a price that cannot be read is told."""
    (world / "judged.py").write_text(
        """
from penstock import Processor, Workflow
class Judged(Processor):
    edits = "nothing"
    def process_input(self, ctx):
        ctx.note(judge={"own/model": {"verdicts": 1, "calls": 1, "input_tokens": 1000, "output_tokens": 10}})
        ctx.flag("x")
guard = Workflow("guard").then(Judged())
""",
        "utf-8",
    )
    (world / "rows.jsonl").write_bytes(lines({"text": "a", "label": True}))
    command = ("eval", "judged.py:guard", "rows.jsonl", "--traffic", "1000", "--base-rate", "0.1")
    out = run(*command, "--price", "own/model=2/10").out
    assert "0.0021" in next(line for line in out.splitlines() if "own/model" in line)
    assert "2.10" in next(line for line in out.splitlines() if "cost of judges a day" in line)
    assert "cost of judges a day" not in run(*command).out
    for wrong in ("own/model=2", "own/model=a/b", "own/model=-1/2"):
        assert "--price takes MODEL=READ/WRITTEN" in run(*command, "--price", wrong).err


def test_answers_are_cut_into_pieces_and_streamed(run, world, lines) -> None:
    """With the characters that had left before a verdict; a second run of `--repeat` and a baseline stream, too."""
    (world / "loud.py").write_text(
        "from penstock import Processor, Workflow\n"
        "class Stops(Processor):\n"
        "    id = 'stops'\n"
        "    edits = 'nothing'\n"
        "    def process_output_stream(self, chunk, ctx):\n"
        "        if '!' in chunk.text:\n"
        "            ctx.abort('loud')\n"
        "        return chunk\n"
        "guard = Workflow('guard').then(Stops())\n",
        "utf-8",
    )
    (world / "rows.jsonl").write_bytes(lines({"text": "12345!", "label": True}, {"text": "123", "label": False}))
    for piece, left in (("1", 5), ("4", 4), ("6", 0)):
        asked = ("eval", "loud.py:guard", "rows.jsonl", "--stage", "output_stream", "--piece", piece)
        made = json.loads(run(*asked, "--repeat", "2", "--baseline", "loud.py:guard", "--format", "json").out)
        assert (made["stage"], made["released"]["most"]) == ("process_output_stream", left)
        assert (made["whole"]["verdicts"]["right"], made["comparison"]["worse"]) == (1, 0)


JUDGED = """
import json
from pathlib import Path
from penstock import ModerationProcessor, Workflow
from penstock.testing import ScriptedModel

def verdict(request):
    with Path("asked").open("a") as file:
        file.write("x")
    return json.dumps({"category_scores": [{"category": "hate", "score": 0.8}], "reason": None})

guard = Workflow("guard").then(ModerationProcessor(ScriptedModel(verdict), strategy="block"))
"""


def test_the_answers_of_judges_are_kept_in_a_file(run, world, lines) -> None:
    """A sweep asks once about a text, and a later one nothing; a repeat asks again."""
    (world / "judged.py").write_text(JUDGED, "utf-8")
    (world / "rows.jsonl").write_bytes(lines({"text": "a", "label": True}, {"text": "b", "label": False}))
    command = ("eval", "judged.py:guard", "rows.jsonl", "--judge-cache", "judge.db", "-f", "json")
    for threshold, asked, flagged in ((".7", 2, 2), (".9", 2, 0)):
        made = json.loads(run(*command, "--set", f"moderation.threshold={threshold}").out)
        assert (made["whole"]["flagged"]["count"], len((world / "asked").read_text())) == (flagged, asked)
        assert (made["judges"][0]["verdicts"], made["judges"][0]["cached"]) == (2, 2)
    table = run(*command[:-1], "markdown", "--repeat", "2").out
    assert "from cache" in table
    assert len((world / "asked").read_text()) == 4


def test_a_file_for_answers_of_judges_must_be_one(run, world, lines) -> None:
    """No other file, and none of another machine."""
    (world / "scores.py").write_text(GUARDS, "utf-8")
    rows = lines(*ROWS)
    (world / "rows.jsonl").write_bytes(rows)
    command = ("eval", "scores.py:guard", "rows.jsonl", "--judge-cache")
    for name in ("rows.jsonl", "scores.py"):
        failed = run(*command, name)
        assert failed.code == Exit.USAGE
        assert "--judge-cache: " in failed.err
        assert "not a SQLite database" in failed.err
    assert (world / "rows.jsonl").read_bytes() == rows
    assert "cannot be opened" in run(*command, "no/such/folder.db").err
    assert "leave out --engine ray" in run(*command, "judge.db", "--engine", "ray").err
