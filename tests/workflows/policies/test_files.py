"""Whether policy files that name each other are found, and what is no file is refused without waiting."""

import os
from pathlib import Path

import pytest

from penstock import UnicodeNormalizer, Workflow
from penstock.workflows.policies import PolicyError, load_policy, parse_policy, read_policy
from penstock.workflows.presets import hygiene


def write(folder: Path, **files: str) -> None:
    """Write policy files; ``_`` in a name stands for the dot."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(f"penstock: 1\n{text}")


def problems(path: Path) -> list[str]:
    """Return what is wrong with a file, without its folder."""
    with pytest.raises(PolicyError) as caught:
        load_policy(path, environment={})
    return [str(one).replace(f"{path.parent}{os.sep}", "") for one in caught.value.problems]


def test_included_steps_stand_before_those_of_the_file(tmp_path: Path) -> None:
    """In the order of the list; an included file may include others."""
    write(
        tmp_path,
        main_yaml="include: [one.yaml, sub/two.json]\nsteps: [hygiene]\n",
        one_yaml="include: [three.yaml]\nsteps: [{use: unicode-normalizer, id: one}]\n",
        three_yaml="steps: [{use: unicode-normalizer, id: three}]\n",
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/two.json").write_text('{"penstock": 1, "steps": [{"use": "unicode-normalizer", "id": "two"}]}')
    workflow = Workflow("main")
    for id in ("three", "one", "two"):
        workflow = workflow.then(UnicodeNormalizer(id=id))
    document = read_policy(tmp_path / "main.yaml")
    assert document.workflow == workflow.then(hygiene())
    assert {Path(file).name for file in document.files} == {"main.yaml", "one.yaml", "two.json", "three.yaml"}


def test_a_file_may_be_a_step(tmp_path: Path) -> None:
    """By its path from the file that names it; its name is the id of the group."""
    write(tmp_path, main_yaml="steps: [{use: ./inner.yaml, timeout: 1s}, {use: sub/inner.yaml, id: other}]\n")
    write(tmp_path, inner_yaml="steps: [unicode-normalizer]\n")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", inner_yaml="name: named\nsteps: [{use: ../inner.yaml}]\n")
    inner = Workflow("inner").then(UnicodeNormalizer())
    made = load_policy(tmp_path / "main.yaml")
    assert made == Workflow("main").then(inner, timeout=1).then(Workflow("named").then(inner), id="other")


def test_a_fault_in_another_file_is_told_there(tmp_path: Path) -> None:
    """With the faults of the file itself."""
    write(tmp_path, main_yaml="include: [one.yaml]\nsteps: [{use: ./two.yaml}, nobody]\n")
    write(tmp_path, one_yaml="steps: [hygeine]\n", two_yaml="steps: [{use: hygiene, id: 'a/b'}]\n")
    assert [line.split("; ")[0] for line in problems(tmp_path / "main.yaml")] == [
        "main.yaml:3:28: unknown processor nobody",
        "one.yaml:2:9: unknown processor hygeine",
        "two.yaml:2:24: an id must be a text without '/'",
    ]


CIRCLES = {
    "itself": {"main_yaml": "steps: [{use: ./main.yaml}]\n"},
    "includes itself": {"main_yaml": "include: [main.yaml]\nsteps: []\n"},
    "two": {"main_yaml": "include: [a.yaml]\nsteps: []\n", "a_yaml": "steps: [{use: ./main.yaml}]\n"},
    "three": {
        "main_yaml": "steps: [{use: ./a.yaml}]\n",
        "a_yaml": "include: [b.yaml]\nsteps: []\n",
        "b_yaml": "steps: [{use: ./sub/../main.yaml}]\n",
    },
}


@pytest.mark.parametrize("name", CIRCLES)
def test_files_that_name_each_other_in_a_circle_are_refused(name: str, tmp_path: Path) -> None:
    """Whatever way they take."""
    (tmp_path / "sub").mkdir()
    write(tmp_path, **CIRCLES[name])
    assert any("the files name each other in a circle" in line for line in problems(tmp_path / "main.yaml"))


def test_a_circle_through_links_is_seen(tmp_path: Path) -> None:
    """A link has another name, and is the same file."""
    write(tmp_path, main_yaml="steps: [{use: ./link.yaml}]\n")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "main.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    assert "the files name each other in a circle" in problems(tmp_path / "main.yaml")[0]
    assert "loop.yaml:1:1: loop.yaml cannot be read: " in problems(tmp_path / "loop.yaml")[0]


def test_the_same_file_twice_is_no_circle(tmp_path: Path) -> None:
    """Two branches may use one."""
    write(tmp_path, main_yaml="steps: [{use: ./a.yaml, id: x}, {use: ./a.yaml, id: y}]\n", a_yaml="steps: [hygiene]\n")
    assert len(load_policy(tmp_path / "main.yaml").root.nodes) == 2


def test_files_that_use_each_other_many_times_over_are_refused_in_bounded_time(tmp_path: Path) -> None:
    """Each uses the next one ten times: a billion steps."""
    for level in range(9):
        steps = "".join(f"  - {{use: ./f{level + 1}.yaml, id: s{number}}}\n" for number in range(10))
        (tmp_path / f"f{level}.yaml").write_text(f"penstock: 1\nsteps:\n{steps}")
    (tmp_path / "f9.yaml").write_text("penstock: 1\nsteps: [unicode-normalizer]\n")
    assert "more than 100 files are included and used; make them fewer" in problems(tmp_path / "f0.yaml")[-1]


def test_files_that_include_each_other_many_times_over_are_refused_in_bounded_time(tmp_path: Path) -> None:
    """The same with ``include:``."""
    for level in range(12):
        others = ", ".join([f"f{level + 1}.yaml"] * 10)
        (tmp_path / f"f{level}.yaml").write_text(f"penstock: 1\ninclude: [{others}]\nsteps: []\n")
    (tmp_path / "f12.yaml").write_text("penstock: 1\nsteps: []\n")
    assert "more than 100 files are included and used; make them fewer" in problems(tmp_path / "f0.yaml")[-1]


@pytest.mark.parametrize(
    "name", ["missing.yaml", "folder.yaml", "pipe.yaml", "/dev/zero.yaml", "long.yaml", "bytes.yaml"]
)
def test_what_is_no_file_of_text_is_refused_at_the_place_that_names_it(name: str, tmp_path: Path) -> None:
    """Without waiting for a pipe, and without reading a device to its end."""
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "long.yaml").write_bytes(b"#" * 1_000_001)
    (tmp_path / "bytes.yaml").write_bytes(b"penstock: 1\nname: \xff\n")
    name = name.rpartition("/")[2]
    write(tmp_path, main_yaml=f"include: [{name}]\nsteps: [{{use: ./{name}}}]\n")
    lines = problems(tmp_path / "main.yaml")
    if name == "bytes.yaml":
        assert lines == ["bytes.yaml:2:7: a byte here is no UTF-8; save the file as UTF-8"]
        return
    assert [line.split(" ")[0] for line in lines] == ["main.yaml:2:11:", "main.yaml:3:15:"]
    assert all("cannot be read: " in line for line in lines)
    with pytest.raises(PolicyError):
        load_policy(tmp_path / name)


def test_other_endings_are_refused() -> None:
    """A file of another kind may hold a secret, which an error would show."""
    with pytest.raises(PolicyError, match=r"its name must end with \.yaml, \.yml, \.json"):
        parse_policy("penstock: 1\ninclude: [/etc/passwd]\nsteps: []\n")


def test_options_of_another_file_are_its_own(tmp_path: Path) -> None:
    """What differs stands in its profiles."""
    write(tmp_path, main_yaml="steps: [{use: ./a.yaml, with: {strategy: block}}]\n", a_yaml="steps: [hygiene]\n")
    assert problems(tmp_path / "main.yaml") == ["main.yaml:2:25: with: cannot change another file; use its profiles:"]


def test_a_name_that_no_system_can_open_is_a_problem() -> None:
    """NUL within it, or too long."""
    for name in ("a\0b.yaml", f"{'x' * 5000}.yaml"):
        with pytest.raises(PolicyError, match="cannot be read"):
            load_policy(name)
