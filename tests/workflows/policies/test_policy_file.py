"""Whether `PolicyFile` follows its file, changes at once, and keeps the last good workflow."""

import logging
import os
import shutil
import threading
from pathlib import Path

import pytest

from penstock import Workflow
from penstock.workflows.policies import PolicyError, PolicyFile, load_policy

LOG = "penstock.workflows.policies.policy_file"


def write(path: Path, name: str, *, include: str = "") -> None:
    """Write a policy whose workflow has a name, as an editor does: beside it, then in its place."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(
        f"penstock: 1\nname: {name}\n{f'include: [{include}]' if include else ''}\nsteps: [unicode-normalizer]\n"
    )
    beside.replace(path)


def followed(path: Path) -> PolicyFile:
    """Return a file that is looked at each time."""
    return PolicyFile(path, look_after=0, environment={})


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    """A run keeps the workflow that it began with."""
    write(tmp_path / "p.yaml", "one")
    file = followed(tmp_path / "p.yaml")
    first = file.current
    assert first is file.current
    write(tmp_path / "p.yaml", "two")
    assert (first.name, file.current.name) == ("one", "two")
    (tmp_path / "p.yaml").write_text("penstock: 1\nname: three\nsteps: []\n")
    assert file.current == Workflow("three")
    assert file.document.profiles == ()
    assert file.error is None


def test_the_last_good_workflow_stays_and_its_fault_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Until the file is good again."""
    path = tmp_path / "p.yaml"
    write(path, "one")
    file = followed(path)
    with caplog.at_level(logging.INFO, LOG):
        path.write_text("penstock: 1\nsteps: [nobody]\n")
        for _ in range(5):
            assert file.current.name == "one"
        os.utime(path, (1, 1))
        assert file.current.name == "one"
        assert file.error is not None
        assert file.error.problems[0].place.line == 2
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert f"{path}:2:9: unknown processor nobody" in caplog.records[0].getMessage()
        write(path, "two")
        assert (file.current.name, file.error) == ("two", None)
        assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_file_that_was_deleted_comes_back(tmp_path: Path) -> None:
    """Some editors delete and write."""
    path = tmp_path / "p.yaml"
    write(path, "one")
    file = followed(path)
    path.unlink()
    assert file.current.name == "one"
    assert file.error is not None
    write(path, "one")
    assert (file.current.name, file.error) == ("one", None)
    path.unlink()
    path.mkdir()
    assert file.current.name == "one"


def test_files_that_are_included_are_followed_too(tmp_path: Path) -> None:
    """Also those that were not there, or not in use, when it was read last."""
    path = tmp_path / "p.yaml"
    write(tmp_path / "a.yaml", "a")
    write(path, "one", include="a.yaml")
    file = followed(path)
    assert len(file.current.root.nodes) == 2
    (tmp_path / "a.yaml").write_text("penstock: 1\nsteps: []\n")
    assert len(file.current.root.nodes) == 1
    write(path, "two", include="b.yaml")
    assert file.current.name == "one"
    write(tmp_path / "b.yaml", "b")
    assert file.current.name == "two"


def test_a_link_that_is_swapped_is_seen(tmp_path: Path) -> None:
    """Kubernetes mounts a ConfigMap so: policy.yaml -> ..data/policy.yaml, ..data -> a folder with a date."""
    for number in (1, 2, 3):
        folder = tmp_path / f"..2026_{number}"
        folder.mkdir()
        write(folder / "policy.yaml", f"v{number}")
    (tmp_path / "..data").symlink_to("..2026_1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    file = followed(tmp_path / "policy.yaml")
    for number in (2, 3):
        (tmp_path / "..data_tmp").symlink_to(f"..2026_{number}")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        shutil.rmtree(tmp_path / f"..2026_{number - 1}")
        assert file.current.name == f"v{number}"


def test_only_a_look_at_the_file_finds_a_change(tmp_path: Path) -> None:
    """By default one a second, so that requests do not wait for the disk."""
    write(tmp_path / "p.yaml", "one")
    file = PolicyFile(tmp_path / "p.yaml", look_after=1e9)
    write(tmp_path / "p.yaml", "two")
    assert file.current.name == "one"


def test_a_change_of_equal_size_and_time_in_place_is_not_seen(tmp_path: Path) -> None:
    """The docs say so: who sets the time back, and writes into the same file, has to replace it."""
    path = tmp_path / "p.yaml"
    path.write_text("penstock: 1\nname: one\nsteps: []\n")
    file = followed(path)
    before = path.stat()
    path.write_text("penstock: 1\nname: two\nsteps: []\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.current.name == "one"


class Reader(threading.Thread):
    """Reads a file until it is stopped, and notes the numbers of what it saw."""

    def __init__(self, file: PolicyFile) -> None:
        super().__init__()
        self.file = file
        self.stop = threading.Event()
        self.seen: list[int] = []
        self.failure: Exception | None = None
        self.start()

    def run(self) -> None:
        """Read."""
        try:
            while not self.stop.is_set():
                workflow = self.file.current
                assert len(workflow.root.nodes) == 1
                self.seen.append(int(workflow.name[1:]))
        except Exception as error:  # noqa: BLE001 - the test asserts that there is none
            self.failure = error


@pytest.mark.rest
def test_readers_in_many_threads_see_the_old_or_the_new(tmp_path: Path) -> None:
    """Never half of one, and never an error."""
    path = tmp_path / "p.yaml"
    write(path, "v0")
    file = followed(path)
    readers = [Reader(file) for _ in range(8)]
    for number in range(1, 60):
        if number % 3 == 0:
            path.write_text("penstock: 1\nsteps: [")
        write(path, f"v{number}")
    for reader in readers:
        reader.stop.set()
        reader.join()
    assert [reader.failure for reader in readers] == [None] * 8
    for reader in readers:
        assert reader.seen == sorted(reader.seen)  # never back
        assert set(reader.seen) <= set(range(60))
    assert file.current.name == "v59"


def test_the_first_reading_raises(tmp_path: Path) -> None:
    """There is no good one yet."""
    with pytest.raises(PolicyError):
        PolicyFile(tmp_path / "missing.yaml")


def test_a_profile_and_an_environment_are_those_of_every_reading(tmp_path: Path) -> None:
    """As for `load_policy`."""
    path = tmp_path / "p.yaml"
    text = 'penstock: 1\nname: "${NAME}"\nsteps: [hygiene, pii-detector]\nprofiles: {prod: {hygiene: {skip: true}}}\n'
    path.write_text(text)
    file = PolicyFile(path, profile="prod", environment={"NAME": "x"}, look_after=0)
    assert file.current == load_policy(path, profile="prod", environment={"NAME": "x"})
    path.write_text(text.replace("pii-detector", "moderation"))
    assert [node.processor.id for node in file.current.root.nodes] == ["moderation"]
