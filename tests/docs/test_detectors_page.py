"""The detectors of docs/detectors.md, run as they stand there: Presidio's patterns, small ONNX models, scikit-learn."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from penstock import Workflow

PAGE = (Path(__file__).parents[2] / "docs" / "detectors.md").read_text("utf-8")
MOST_LINES = 6

needs_onnx = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxruntime", "tokenizers"))), reason="not run: onnx or onnxruntime is missing"
)


def block(heading: str) -> str:
    """Return the code under a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.search(r"^```py\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found.group(1)


def ran(heading: str, **names: Any) -> Workflow:
    """Run the code under a heading; return a workflow with the guard that it makes."""
    exec(compile(block(heading), f"detectors.md: {heading}", "exec"), names)  # noqa: S102 - our own page
    return Workflow("w").then(names["guard"])


@pytest.mark.parametrize("heading", ["Presidio", "GLiNER", "Prompt Guard", "A toxicity model", "scikit-learn"])
def test_a_detector_takes_six_lines_at_most(heading: str) -> None:
    """Without blank ones."""
    assert len([line for line in block(heading).splitlines() if line.strip()]) <= MOST_LINES


@pytest.mark.skipif(find_spec("presidio_analyzer") is None, reason="not run: the extra presidio is missing")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_presidio_finds_its_patterns() -> None:
    """Without a language model."""
    assert ran("Presidio").check_sync("Write to ann@example.org.").text == "Write to [EMAIL]."


@needs_onnx
def test_a_model_like_prompt_guard_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder stands where the program runs."""
    from tests.models.detectors.models import folder

    table = {"*": [4.0, 0.0, 0.0], "zorg": [0.0, 9.0, 0.0]}
    folder(tmp_path / "prompt-guard", ("BENIGN", "INJECTION", "JAILBREAK"), table, tokens=False)
    monkeypatch.chdir(tmp_path)
    guard = ran("Prompt Guard")
    assert [guard.check_sync(text).blocked for text in ("zorg", "a recipe for soup, please")] == [True, False]


@needs_onnx
def test_a_model_of_toxic_comments_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its labels are those of the page, and others."""
    from tests.models.detectors.models import folder

    labels = ("toxic", "identity_hate", "insult", "threat")
    table = {"*": [-5.0] * 4, "zorg": [4.0, -5.0, 4.0, -5.0], "gah": [4.0, -5.0, -5.0, -5.0]}
    folder(tmp_path / "toxic-bert", labels, table, tokens=False, problem_type="multi_label_classification")
    monkeypatch.chdir(tmp_path)
    guard = ran("A toxicity model")
    outcome = guard.check_sync("you zorg")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason == "the text was flagged: harassment"
    assert not guard.check_sync("gah, what a day").blocked


@pytest.mark.skipif(find_spec("sklearn") is None, reason="not run: scikit-learn is missing")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.rest
def test_a_pipeline_of_scikit_learn_blocks() -> None:
    """Fitted on a few examples."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    spam = ["buy now cheap", "cheap pills buy", "buy cheap watches now", "now cheap offer buy"] * 5
    ham = ["see you at lunch", "the report is ready", "thanks for the help", "lunch is ready"] * 5
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100.0)).fit(spam + ham, [1] * 20 + [0] * 20)
    guard = ran("scikit-learn", pipeline=pipeline)
    assert [guard.check_sync(text).blocked for text in ("buy cheap pills now", "lunch is ready")] == [True, False]
