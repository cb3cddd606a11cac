"""ONNX models in a folder as detectors: labels, windows, spans, and folders that are not what they should be."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock import ModerationProcessor, OptionError, PIIDetector, PromptInjectionDetector, Workflow
from penstock.engine.values.errors import DetectorError, MissingExtraError
from penstock.models.detectors import OnnxScores, OnnxSpans
from penstock.models.detectors.calls import score_calls

pytest.importorskip("onnxruntime", reason="the ONNX detectors are not tested: onnxruntime is not installed")
pytest.importorskip("tokenizers", reason="the ONNX detectors are not tested: tokenizers is not installed")
pytest.importorskip("onnx", reason="the ONNX detectors are not tested: onnx, which builds the models, is not installed")

GUARD_LABELS = ("BENIGN", "INJECTION", "JAILBREAK")
GUARD = {"*": [3.0, 0.0, 0.0], "ignore": [0.0, 8.0, 0.0], "dan": [0.0, 0.0, 8.0]}
TOXIC = {"*": [-5.0, -5.0], "idiot": [4.0, -5.0], "die": [4.0, 4.0]}
NER_LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
NER = {
    "*": [6.0, 0.0, 0.0, 0.0, 0.0],
    "May": [0.0, 6.0, 0.0, 0.0, 0.0],
    "Mary": [0.0, 6.0, 0.0, 0.0, 0.0],
    "Jones": [0.0, 0.0, 6.0, 0.0, 0.0],
    "Rome": [0.0, 0.0, 0.0, 6.0, 0.0],
    "perhaps": [1.0, 1.1, 0.9, 0.0, 0.0],
}


def model_folder(*args: Any, **options: Any) -> Path:
    """Build a model; here, so that the module can be collected without the libraries."""
    from tests.models.detectors.models import folder

    return folder(*args, **options)


@pytest.fixture
def injections(tmp_path: Path) -> Path:
    """A model like Prompt Guard: three labels, one of which says that nothing is wrong."""
    return model_folder(tmp_path / "prompt-guard", GUARD_LABELS, GUARD, tokens=False)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A model that finds people and places."""
    return model_folder(tmp_path / "ner", NER_LABELS, NER, tokens=True, inputs=2)


def test_labels_add_up_to_one_unless_several_may_apply(injections: Path, tmp_path: Path) -> None:
    """As the configuration says: softmax, or a sigmoid for each."""
    detector = OnnxScores(injections)
    assert (detector.categories, detector.name) == (GUARD_LABELS, "prompt-guard")
    assert all(sum(scores.values()) == pytest.approx(1) for scores in detector.scores(["ignore it", "a dan", "hello"]))
    several = "multi_label_classification"
    toxic = OnnxScores(model_folder(tmp_path / "toxic", ("toxic", "threat"), TOXIC, tokens=False, problem_type=several))
    found = toxic.scores(["hello", "you idiot", "die"])
    assert [round(scores["threat"], 2) for scores in found] == [0.01, 0.01, 0.98]
    assert found[1]["toxic"] == pytest.approx(1 / (1 + math.exp(-4.0)))


def test_a_model_of_one_label_scores_it_by_itself(tmp_path: Path) -> None:
    """A softmax over one label would always be 1."""
    detector = OnnxScores(model_folder(tmp_path, ("toxic",), {"*": [-5.0], "idiot": [4.0]}, tokens=False))
    assert [round(scores["toxic"], 2) for scores in detector.scores(["hello", "idiot"])] == [0.01, 0.98]


def test_labels_are_chosen_and_named(injections: Path) -> None:
    """Exclusive labels under one name add up; a threshold is one for all, or by category."""
    detector = OnnxScores(injections, categories={"INJECTION": "injection", "JAILBREAK": "injection"}, thresholds=0.9)
    assert (detector.categories, detector.thresholds) == (("injection",), {"injection": 0.9})
    both = detector.scores(["ignore dan"])[0]["injection"]
    assert both == pytest.approx(1 - math.exp(3.0) / (math.exp(3.0) + 2 * math.exp(8.0)), abs=0.01)
    assert OnnxScores(injections, categories=["JAILBREAK"]).thresholds == {"JAILBREAK": 0.5}


def test_texts_of_different_lengths_have_the_scores_that_they_have_alone(injections: Path) -> None:
    """What fills a batch up changes nothing, and the order stays."""
    detector = OnnxScores(injections, batch_size=2)
    texts = ["ignore", "hello " * 40, "dan and so on", "", "hello ignore this " * 9]
    alone = [detector.scores([text])[0] for text in texts]
    assert [pytest.approx(each) for each in alone] == detector.scores(texts)


def test_a_long_text_is_read_in_windows_that_overlap(injections: Path) -> None:
    """The highest score counts, wherever the words stand."""
    detector = OnnxScores(injections, categories=["INJECTION"], max_length=16)
    for place in (0, 13, 50, 99):
        words = ["hello"] * 100
        words[place] = "ignore"
        assert detector.scores([" ".join(words)])[0]["INJECTION"] > 0.9
    assert detector.scores(["hello " * 100])[0]["INJECTION"] < 0.1


def test_a_model_says_how_much_it_reads(tmp_path: Path) -> None:
    """In its configuration; more is refused."""
    path = model_folder(tmp_path, GUARD_LABELS, GUARD, tokens=False, max_position_embeddings=20)
    assert OnnxScores(path, categories=["INJECTION"]).scores(["hello " * 50 + "ignore"])[0]["INJECTION"] > 0.9
    with pytest.raises(OptionError, match="20 or fewer"):
        OnnxScores(path, max_length=21)


def test_the_file_may_be_another_one(tmp_path: Path) -> None:
    """A quantised one, or the usual one in a folder of its own."""
    path = model_folder(tmp_path, GUARD_LABELS, GUARD, tokens=False, file="onnx/model.onnx")
    assert OnnxScores(path).categories == GUARD_LABELS
    (path / "onnx" / "model.onnx").rename(path / "onnx" / "model_quantized.onnx")
    assert OnnxScores(path, file="onnx/model_quantized.onnx", threads=1).categories == GUARD_LABELS
    with pytest.raises(OptionError, match=r"model.onnx or onnx/model.onnx is missing"):
        OnnxScores(path)


def test_spans_stand_where_their_words_do(people: Path) -> None:
    """In characters of the text, whatever characters come before."""
    detector = OnnxSpans(people, types={"PER": "name"})
    assert detector.types == ("name",)
    text = "😀 Zoë: Mary Jones met May in Rome, Mary."
    spans = detector.find([text])[0]
    assert [text[span.start : span.end] for span in spans] == ["Mary Jones", "May", "Mary"]
    assert all(span.type == "name" and span.score > 0.9 for span in spans)


def test_a_label_that_begins_a_span_parts_two_of_one_type(people: Path) -> None:
    """Two people called May and Mary are two, Mary Jones is one; a stray label for the inside begins one, too."""
    detector = OnnxSpans(people)
    text = "May Mary Jones, Jones Rome"
    found = [(text[span.start : span.end], span.type) for span in detector.find([text])[0]]
    assert found == [("May", "PER"), ("Mary Jones", "PER"), ("Jones", "PER"), ("Rome", "LOC")]


def test_labels_of_four_prefixes_and_of_none_make_spans(tmp_path: Path) -> None:
    """BILOU says where a span ends; without prefixes, neighbours of one label are one span."""
    table = {"*": [9.0, 0.0, 0.0, 0.0], "a": [0, 9.0, 0, 0], "b": [0, 0, 9.0, 0], "c": [0, 0, 0, 9.0]}
    bilou = OnnxSpans(model_folder(tmp_path / "one", ("O", "B-X", "L-X", "U-X"), table, tokens=True))
    text = "a b b c c z a"
    assert [text[span.start : span.end] for span in bilou.find([text])[0]] == ["a b", "b", "c", "c", "a"]
    plain = OnnxSpans(model_folder(tmp_path / "two", ("O", "X", "Y", "Z"), table, tokens=True))
    assert plain.types == ("X", "Y", "Z")
    assert [text[span.start : span.end] for span in plain.find([text])[0]] == ["a", "b b", "c c", "a"]


def test_the_type_of_a_token_is_that_of_all_its_labels_together(people: Path) -> None:
    """Neither B-PER nor I-PER alone has a half, both together do; a higher threshold leaves it out."""
    assert [span.type for span in OnnxSpans(people).find(["perhaps"])[0]] == ["PER"]
    assert OnnxSpans(people, threshold=0.7).find(["perhaps"]) == [[]]


def test_a_span_across_windows_is_found_once(people: Path) -> None:
    """Windows overlap, and what both find is one."""
    detector = OnnxSpans(people, max_length=16)
    for before in range(30):
        text = "so " * before + "Mary Jones" + " so" * 30
        assert [text[span.start : span.end] for span in detector.find([text])[0]] == ["Mary Jones"]


def test_a_span_takes_in_the_word_that_it_ends_in(tmp_path: Path) -> None:
    """A model may label the first piece of a word only; scripts without spaces are left as they are."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import BertPreTokenizer

    path = model_folder(
        tmp_path, ("O", "B-PER"), {"*": [9.0, 0.0], "Johan": [0.0, 9.0], "##sson": [9.0, 0.0]}, tokens=True
    )
    words = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "Johan", "##sson"))}
    tokenizer = Tokenizer(WordPiece(words, unk_token="[UNK]"))  # noqa: S106 - no secret
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(path / "tokenizer.json"))
    text = "a Johansson, b"
    assert [text[span.start : span.end] for span in OnnxSpans(path).find([text])[0]] == ["Johansson"]


async def test_guards_use_them(injections: Path, people: Path) -> None:
    """Off the event loop, whole and in a stream."""
    scores = OnnxScores(injections, categories={"INJECTION": "injection", "JAILBREAK": "jailbreak"})
    guard = (
        Workflow("w")
        .then(PromptInjectionDetector(detector=scores, combine="replace"))
        .then(PIIDetector(detector=OnnxSpans(people, types={"PER": "name"}), redaction_method="placeholder"))
    )
    assert (await guard.check("please ignore it")).blocked
    assert (await guard.check("Mary Jones may come in May.")).text == "[NAME] may come in [NAME]."
    assert guard.check_sync("Mary Jones").text == "[NAME]"
    async with guard.start().process_output_stream(["I met Ma", "ry Jo", "nes. And more."]) as chunks:
        assert "".join([chunk.text async for chunk in chunks]) == "I met [NAME]. And more."


def test_detectors_can_be_pickled(injections: Path, people: Path) -> None:
    """The model is loaded again."""
    scores = OnnxScores(injections, categories=["JAILBREAK"], thresholds=0.7, max_length=32)
    copy = pickle.loads(pickle.dumps(scores))  # noqa: S301 - made here
    assert (copy.categories, copy.thresholds) == (scores.categories, scores.thresholds)
    assert copy.scores(["a dan"]) == scores.scores(["a dan"])
    spans = pickle.loads(pickle.dumps(OnnxSpans(people, types=["LOC"], threshold=0.3)))  # noqa: S301 - made here
    assert (spans.types, repr(spans)) == (("LOC",), f"OnnxSpans({str(people)!r}, types=('LOC',))")
    assert repr(scores).endswith("categories=('JAILBREAK',))")


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "config.json"])
def test_a_file_that_is_missing_is_named(injections: Path, missing: str) -> None:
    """With what writes it; nothing is downloaded."""
    (injections / missing).unlink()
    with pytest.raises(OptionError, match=f"as `optimum-cli export onnx` writes it; {missing}.* is missing"):
        OnnxScores(injections)


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("config.json", "{", "whose config.json is JSON"),
        ("config.json", "[]", "whose config.json is an object"),
        ("config.json", "{}", "whose config.json has id2label"),
        ("config.json", '{"id2label": {"1": "a"}}', "a name for each number from 0 on"),
        ("tokenizer.json", "{}", "whose tokenizer.json the library tokenizers can read"),
        ("model.onnx", "?", "whose model.onnx onnxruntime can load"),
    ],
)
def test_a_file_that_is_broken_is_named(injections: Path, file: str, text: str, problem: str) -> None:
    """When the detector is made, not when the first text comes."""
    (injections / file).write_text(text)
    with pytest.raises(OptionError, match=problem):
        OnnxScores(injections)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"categories": ["X"]}, "some of the labels of the model: 'BENIGN', 'INJECTION', 'JAILBREAK'"),
        ({"categories": []}, "some of the labels"),
        ({"categories": {"INJECTION": ""}}, "a mapping of labels to names"),
        ({"max_length": 3}, "8 or more, or None"),
        ({"batch_size": 0}, "a number, 1 or more"),
        ({"threads": 0}, "a number, 1 or more"),
    ],
)
def test_options_are_checked(injections: Path, options: dict[str, Any], problem: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(OptionError, match=problem):
        OnnxScores(injections, **options)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan, True, "high"])
def test_a_threshold_is_a_number_from_0_to_1(people: Path, threshold: Any) -> None:
    """With a higher one nothing would be found, and nobody told."""
    with pytest.raises(OptionError, match=r"option 'threshold' is .*, but must be a number from 0 to 1"):
        OnnxSpans(people, threshold=threshold)


async def test_a_model_whose_labels_do_not_fit_has_failed(tmp_path: Path) -> None:
    """The guard blocks; the error says what does not fit."""
    detector = OnnxScores(model_folder(tmp_path, GUARD_LABELS, GUARD, tokens=False), categories=["BENIGN"])
    detector._model.labels = ("a", "b")  # a model that does not say what it gives
    with pytest.raises(DetectorError, match=r"the model gives 3 numbers, and config\.json has 2 labels"):
        await score_calls(detector).ask(["hello"])
    outcome = await Workflow("w").then(ModerationProcessor(detector=detector, combine="replace")).check("hello")
    assert outcome.tripwire is None  # it only warns, so its failure is recorded
    strict = ModerationProcessor(detector=detector, combine="replace", strategy="block")
    assert (await Workflow("w").then(strict).check("hello")).blocked


def test_a_model_of_another_kind_is_refused(injections: Path, people: Path) -> None:
    """When the detector is made, where the model says what it gives."""
    with pytest.raises(OptionError, match="one for sequence classification, which gives 2 dimensions, not 3"):
        OnnxScores(people)
    with pytest.raises(OptionError, match="one for token classification, which gives 3 dimensions, not 2"):
        OnnxSpans(injections)
    (people / "config.json").write_text('{"id2label": {"0": "O"}}')
    with pytest.raises(OptionError, match=r"the model gives 5 numbers, and config\.json has 1 labels"):
        OnnxSpans(people)


def test_a_number_that_is_none_is_a_failure(tmp_path: Path) -> None:
    """It must not count as a score of 0, or as no finding."""
    table = {"*": [9.0, 0.0], "x": [math.inf, 0.0], "y": [math.nan, 0.0]}
    scores = OnnxScores(model_folder(tmp_path / "a", ("a", "b"), table, tokens=False), categories=["b"])
    spans = OnnxSpans(model_folder(tmp_path / "b", ("O", "PER"), table, tokens=True))
    strict = ModerationProcessor(detector=scores, combine="replace", strategy="block")
    for guard, words in ((strict, "x"), (PIIDetector(detector=spans, combine="replace"), "xy")):
        assert not Workflow("w").then(guard).check_sync("fine").blocked
        for word in words:
            tripwire = Workflow("w").then(guard).check_sync(f"an {word}").tripwire
            assert tripwire is not None
            assert tripwire.metadata["why"] == "the model gives numbers that are infinite or none"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything is read."""
    monkeypatch.setattr("penstock.models.detectors.onnx.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"OnnxScores needs the extra 'onnx': pip install 'penstock\[onnx\]'"):
        OnnxScores(tmp_path)
