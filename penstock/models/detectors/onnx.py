"""`OnnxScores` and `OnnxSpans`: detectors made of an ONNX model in a folder, as Hugging Face's tools export it.

The folder is the user's: nothing is ever downloaded. Texts that are longer than the model reads are read in windows
that overlap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.detection.spans import Span
from penstock.engine.values.errors import DetectorError, MissingExtraError, OptionError
from penstock.models.detectors.calls import BATCH_SECONDS, BATCH_SIZE
from penstock.models.detectors.labels import checked_threshold, renamed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.floating]
    Ints = NDArray[np.integer]

MAX_LENGTH = 512
"""The most tokens that a model reads at once, unless its configuration or an option says fewer."""

_LEAST_LENGTH = 8
_OVERLAP = 8  # windows overlap by one part in so many
_THRESHOLD = 0.5
_WITH_SPACES = 0x0E00  # below this code point, words stand apart; from Thai on, scripts without spaces follow


class OnnxScores:
    """Scores texts with a sequence classification model in a folder: toxicity, prompt injection, languages.

    The folder holds ``model.onnx`` (or ``onnx/model.onnx``), ``tokenizer.json`` and ``config.json``. The labels are
    those of ``id2label``. ``problem_type`` says whether several may apply: with ``multi_label_classification`` each has
    a score by itself (sigmoid); otherwise all of them add up to 1 (softmax). Of a long text, the highest score of its
    windows counts.

    Args:
        folder: the folder.
        categories: the labels that count: a list, or a mapping of labels to the names that the guard knows, such as
            ``{"INJECTION": "injection"}``; None for all. Leave out a label that says that nothing is wrong.
        thresholds: the score from which a category counts: a number for all, or a mapping by category; None: 0.5.
        file: the model's file, within the folder: ``onnx/model_quantized.onnx``.
        max_length: the most tokens of a window, 8 or more; None for the limit of the model, 512 at most.
        batch_size: the most windows that the model reads at a time, 1 or more.
        batch_seconds: how long a text waits for others of concurrent requests.
        threads: how many cores it may use, 1 or more; None: all.

    Attributes:
        name: the name of the folder.
        categories: the categories.
        thresholds: the thresholds by category.

    Raises:
        OptionError: a file is missing or of another kind, or another option is not allowed.
        MissingExtraError: the extra ``onnx`` is not installed.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        categories: Mapping[str, str] | Iterable[str] | None = None,
        thresholds: Mapping[str, float] | float | None = None,
        file: str | None = None,
        max_length: int | None = None,
        batch_size: int = BATCH_SIZE,
        batch_seconds: float = BATCH_SECONDS,
        threads: int | None = None,
    ) -> None:
        self._given = (fspath(folder), categories, thresholds, file, max_length, batch_size, batch_seconds, threads)
        self._model = _OnnxModel("OnnxScores", folder, file, max_length, batch_size, threads)
        self.name = self._model.name
        self.batch_size, self.batch_seconds = batch_size, batch_seconds
        self._names = renamed("OnnxScores", "categories", categories, self._model.labels)
        self.categories = tuple(dict.fromkeys(self._names.values()))
        self.thresholds = _thresholds(thresholds, self.categories)
        self._each = _scores_each(self._model)

    def scores(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return the score of each category, for each text."""
        found: list[dict[str, float]] = [dict.fromkeys(self.categories, 0.0) for _ in texts]
        for window, logits in self._model.run(texts):
            scores = self._of_window(logits)
            own = found[window.text]
            for name, score in scores.items():
                own[name] = max(own[name], score)
        return found

    def _of_window(self, logits: Floats) -> dict[str, float]:
        shares = _sigmoid(logits) if self._each else _softmax(logits)
        scores = dict.fromkeys(self.categories, 0.0)
        for at, label in enumerate(self._model.labels):
            name = self._names.get(label)
            if name is not None:
                share = float(shares[at])
                scores[name] = max(scores[name], share) if self._each else min(scores[name] + share, 1.0)
        return scores

    def __reduce__(self) -> tuple[Callable[..., OnnxScores], tuple[object, ...]]:
        """Return its constructor's arguments; the model is loaded again."""
        return _scores_again, self._given

    def __repr__(self) -> str:
        """Show the folder and the categories."""
        return f"OnnxScores({self._given[0]!r}, categories={self.categories!r})"


class OnnxSpans:
    """Finds spans with a token classification model in a folder: names, addresses, other personal data.

    The folder is that of `OnnxScores`. Labels with prefixes (``B-PER``, ``I-PER``; also ``L``, ``U``, ``E``, ``S``)
    make spans of several tokens; labels without make one span of neighbouring tokens of one label. ``O`` is no finding.
    A span that begins or ends within a word takes in the whole word.

    Args:
        folder: the folder.
        types: the types that count, without prefixes: a list, or a mapping to the names that the guard knows, such as
            ``{"PER": "name"}``; None for all.
        threshold: the mean score of its tokens from which a span counts, 0 to 1.
        file: the model's file, within the folder: ``onnx/model_quantized.onnx``.
        max_length: the most tokens of a window, 8 or more; None for the limit of the model, 512 at most.
        batch_size: the most windows that the model reads at a time, 1 or more.
        batch_seconds: how long a text waits for others of concurrent requests.
        threads: how many cores it may use, 1 or more; None: all.

    Attributes:
        name: the name of the folder.
        types: the types of spans.

    Raises:
        OptionError: a file is missing or of another kind, or another option is not allowed.
        MissingExtraError: the extra ``onnx`` is not installed.
    """

    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        types: Mapping[str, str] | Iterable[str] | None = None,
        threshold: float = _THRESHOLD,
        file: str | None = None,
        max_length: int | None = None,
        batch_size: int = BATCH_SIZE,
        batch_seconds: float = BATCH_SECONDS,
        threads: int | None = None,
    ) -> None:
        self._given = (fspath(folder), types, threshold, file, max_length, batch_size, batch_seconds, threads)
        self._model = _OnnxModel("OnnxSpans", folder, file, max_length, batch_size, threads)
        self.name = self._model.name
        self.batch_size, self.batch_seconds = batch_size, batch_seconds
        self._tags = _Tags(self._model.labels)
        self._names = renamed("OnnxSpans", "types", types, self._tags.types)
        self.types = tuple(dict.fromkeys(self._names.values()))
        self._threshold = checked_threshold("OnnxSpans", threshold)

    def find(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return the spans of each text, in order."""
        found: list[list[Span]] = [[] for _ in texts]
        for window, logits in self._model.run(texts):
            text = texts[window.text]
            for span in self._tags.spans(window.offsets, _softmax(logits)):
                name = self._names.get(span.type)
                low, high = _whole_words(text, span.start, span.end)
                if name is not None and low < high and span.score >= self._threshold:
                    found[window.text].append(Span(low, high, name, min(span.score, 1.0)))
        return [_united(spans) for spans in found]

    def __reduce__(self) -> tuple[Callable[..., OnnxSpans], tuple[object, ...]]:
        """Return its constructor's arguments; the model is loaded again."""
        return _spans_again, self._given

    def __repr__(self) -> str:
        """Show the folder and the types."""
        return f"OnnxSpans({self._given[0]!r}, types={self.types!r})"


_OPTIONS = ("file", "max_length", "batch_size", "batch_seconds", "threads")


def _scores_again(folder: str, categories: None, thresholds: None, *options: None) -> OnnxScores:
    return OnnxScores(folder, categories=categories, thresholds=thresholds, **dict(zip(_OPTIONS, options, strict=True)))  # type: ignore[arg-type]


def _spans_again(folder: str, types: None, threshold: float, *options: None) -> OnnxSpans:
    return OnnxSpans(folder, types=types, threshold=threshold, **dict(zip(_OPTIONS, options, strict=True)))  # type: ignore[arg-type]


# The model


class _Encoding(Protocol):
    """A window of a text as tokens."""

    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int]]
    special_tokens_mask: list[int]
    overflowing: list[_Encoding]


class _Tokenizer(Protocol):
    def no_padding(self) -> None: ...

    def enable_truncation(self, max_length: int, stride: int) -> None: ...

    def encode_batch(self, input: list[str]) -> list[_Encoding]: ...  # noqa: A002 - the library's name

    def token_to_id(self, token: str) -> int | None: ...


class _Input(Protocol):
    name: str
    type: str


class _Output(Protocol):
    shape: list[int | str | None]


class _Session(Protocol):
    def get_inputs(self) -> list[_Input]: ...

    def get_outputs(self) -> list[_Output]: ...

    def run(self, output_names: None, input_feed: Mapping[str, object]) -> list[Floats]: ...


class _Window(NamedTuple):
    """A window of one of several texts: which, its tokens, and where these stand in the text (None: they do not)."""

    text: int
    ids: list[int]
    type_ids: list[int]
    offsets: list[tuple[int, int] | None]


_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

_RANKS = {"OnnxScores": (2, "sequence"), "OnnxSpans": (3, "token")}
"""The dimensions of what a model must give for each class, and what such models classify."""


class _OnnxModel:
    """A model in a folder, with its tokenizer and its labels."""

    def __init__(
        self,
        owner: str,
        folder: str | PathLike[str],
        file: str | None,
        max_length: int | None,
        batch_size: int,
        threads: int | None,
    ) -> None:
        if find_spec("onnxruntime") is None or find_spec("tokenizers") is None:
            raise MissingExtraError(owner, "onnx")
        self._owner = owner
        self._folder = Path(folder)
        self.name = self._folder.resolve().name
        for option, given in (("batch_size", batch_size), ("threads", threads)):
            if given is not None and (type(given) is not int or given < 1):
                raise OptionError(owner, option, given, "a number, 1 or more")
        self._batch_size = batch_size
        path = self._file(*(["model.onnx", "onnx/model.onnx"] if file is None else [file]))
        config = self._config()
        self.labels = self._labels(config)
        self.problem = config.get("problem_type")
        self._pad = config["pad_token_id"] if isinstance(config.get("pad_token_id"), int) else 0
        self._tokenizer = self._read_tokenizer(self._length(max_length, config))
        self._session = self._read_session(path, threads)
        self._inputs = {item.name: "int32" if "int32" in item.type else "int64" for item in self._session.get_inputs()}
        made = self._session.get_outputs()[0].shape  # empty where the model does not say it
        if made and (problem := self._misfit(len(made), made[-1] if isinstance(made[-1], int) else None)):
            raise self._refused(f"a folder with a model that {owner} can read: {problem}")
        unknown = [name for name in self._inputs if name not in _INPUTS]
        if unknown:
            raise self._refused(f"a model with the inputs {', '.join(_INPUTS)}; this one also takes {unknown[0]}")

    def _refused(self, allowed: str) -> OptionError:
        return OptionError(self._owner, "folder", str(self._folder), allowed)

    def _file(self, *names: str) -> Path:
        for name in names:
            if (self._folder / name).is_file():
                return self._folder / name
        missing = " or ".join(names)
        raise self._refused(
            "a folder with model.onnx, tokenizer.json and config.json, as `optimum-cli export onnx` writes it; "
            f"{missing} is missing"
        )

    def _config(self) -> Mapping[str, object]:
        path = self._file("config.json")
        try:
            config: object = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise self._refused("a folder whose config.json is JSON") from error
        if not isinstance(config, dict):
            raise self._refused("a folder whose config.json is an object")
        return cast("dict[str, object]", config)

    def _labels(self, config: Mapping[str, object]) -> tuple[str, ...]:
        given = config.get("id2label")
        table = cast("dict[str, object]", given) if isinstance(given, dict) else {}
        labels = [table.get(str(at)) for at in range(len(table))]
        if not labels or not all(isinstance(label, str) and label for label in labels):
            raise self._refused("a folder whose config.json has id2label, with a name for each number from 0 on")
        return tuple(cast("list[str]", labels))

    def _length(self, given: int | None, config: Mapping[str, object]) -> int:
        if given is not None and (type(given) is not int or given < _LEAST_LENGTH):
            raise OptionError(self._owner, "max_length", given, f"a number of tokens, {_LEAST_LENGTH} or more, or None")
        places = config.get("max_position_embeddings")
        most = places if isinstance(places, int) and places >= _LEAST_LENGTH else MAX_LENGTH
        if given is not None and given > most:
            raise OptionError(self._owner, "max_length", given, f"{most} or fewer, which is what the model reads")
        return min(most, MAX_LENGTH) if given is None else given

    def _read_tokenizer(self, length: int) -> _Tokenizer:
        path = self._file("tokenizer.json")
        read = cast("Callable[[str], _Tokenizer]", import_module("tokenizers").Tokenizer.from_file)
        try:
            tokenizer = read(str(path))
        except Exception as error:
            raise self._refused("a folder whose tokenizer.json the library tokenizers can read") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(length, stride=length // _OVERLAP)
        return tokenizer

    def _read_session(self, path: Path, threads: int | None) -> _Session:
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = threads
        make = cast("Callable[..., _Session]", runtime.InferenceSession)
        try:
            return make(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise self._refused(f"a folder whose {path.name} onnxruntime can load") from error

    def run(self, texts: Sequence[str]) -> Iterator[tuple[_Window, Floats]]:
        """Yield each window of the texts, with the model's logits about it."""
        windows = [
            _window(at, each)
            for at, encoding in enumerate(self._tokenizer.encode_batch([*texts]))
            for each in (encoding, *encoding.overflowing)
        ]
        windows.sort(key=lambda window: len(window.ids))  # so that little is padded
        for low in range(0, len(windows), self._batch_size):
            batch = windows[low : low + self._batch_size]
            logits = self._logits(batch)
            yield from zip(batch, logits, strict=True)

    def _logits(self, batch: Sequence[_Window]) -> Floats:
        import numpy as np

        shape = (len(batch), max(len(window.ids) for window in batch))
        tables: dict[str, Ints] = {
            "input_ids": np.full(shape, self._pad, dtype=np.int64),
            "attention_mask": np.zeros(shape, dtype=np.int64),
            "token_type_ids": np.zeros(shape, dtype=np.int64),
        }
        for at, window in enumerate(batch):
            size = len(window.ids)
            tables["input_ids"][at, :size] = window.ids
            tables["attention_mask"][at, :size] = 1
            tables["token_type_ids"][at, :size] = window.type_ids
        feed = {name: tables[name].astype(kind) for name, kind in self._inputs.items()}
        logits = self._session.run(None, feed)[0].astype(np.float64)
        problem = self._misfit(logits.ndim, logits.shape[-1])
        if problem is None:
            read = logits[tables["attention_mask"] == 1] if self._owner == "OnnxSpans" else logits
            problem = None if np.isfinite(read).all() else "the model gives numbers that are infinite or none"
        if problem is not None:
            raise DetectorError(self.name, problem)
        return logits

    def _misfit(self, rank: int, count: int | None) -> str | None:
        """Return why the output of a model does not fit; None if it does. ``count``: its numbers, if they are known."""
        wanted, kind = _RANKS[self._owner]
        if rank != wanted:
            return f"the model must be one for {kind} classification, which gives {wanted} dimensions, not {rank}"
        if count not in (None, len(self.labels)):
            return f"the model gives {count} numbers, and config.json has {len(self.labels)} labels"
        return None


def _window(at: int, encoding: _Encoding) -> _Window:
    offsets = [
        None if special else place
        for place, special in zip(encoding.offsets, encoding.special_tokens_mask, strict=True)
    ]
    return _Window(at, encoding.ids, encoding.type_ids, offsets)


def _scores_each(model: _OnnxModel) -> bool:
    """Return whether each label has a score of its own."""
    return model.problem == "multi_label_classification" or len(model.labels) == 1


def _softmax(logits: Floats) -> Floats:
    import numpy as np

    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def _sigmoid(logits: Floats) -> Floats:
    import numpy as np

    scores: Floats = 1.0 / (1.0 + np.exp(-np.clip(logits, -500.0, 500.0)))
    return scores


# Labels


def _thresholds(given: Mapping[str, float] | float | None, categories: Sequence[str]) -> dict[str, float]:
    if isinstance(given, Mapping):
        return dict(given)
    return dict.fromkeys(categories, _THRESHOLD if given is None else given)


_BEGINS, _GOES_ON, _ENDS, _ALONE = "B", "IM", "LE", "US"


@dataclass(frozen=True, slots=True)
class _Tag:
    """The meaning of a label for a token: its type (empty for none), and whether a span begins or ends with it."""

    type: str
    begins: bool = False
    ends: bool = False


def _tag(label: str, *, prefixed: bool) -> _Tag:
    if label in ("O", "0", "OTHER", ""):
        return _Tag("")
    head, type_ = label[:1], label[2:]
    if not prefixed:
        return _Tag(label)
    return _Tag(type_, head in _BEGINS + _ALONE, head in _ENDS + _ALONE)


class _Tags:
    """The labels of a token classification model, and the spans that they make.

    Attributes:
        types: the types of the spans.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        inside = [label for label in labels if _tag(label, prefixed=False).type]
        prefixed = bool(inside) and all(
            len(label) > 2 and label[0] in _BEGINS + _GOES_ON + _ENDS + _ALONE and label[1] in "-_"  # noqa: PLR2004 - B-X
            for label in inside
        )
        self._tags = [_tag(label, prefixed=prefixed) for label in labels]
        self.types = tuple(dict.fromkeys(tag.type for tag in self._tags if tag.type))

    def spans(self, offsets: Sequence[tuple[int, int] | None], shares: Floats) -> Iterator[Span]:
        """Yield the spans of a window. The type of a token is the one whose labels have the most of its probability."""
        open_: _OpenSpan | None = None
        for place, row in zip(offsets, shares[: len(offsets)], strict=True):
            if place is None or place[0] == place[1]:
                continue
            type_, score, begins, ends = self._read(row)
            if open_ is not None and (type_ != open_.type or begins or open_.over):
                yield open_.span()
                open_ = None
            if type_:
                open_ = open_ or _OpenSpan(type_, place[0])
                open_.add(place[1], score, over=ends)
        if open_ is not None:
            yield open_.span()

    def _read(self, row: Floats) -> tuple[str, float, bool, bool]:
        """Return the type of a token, its probability, and whether a span begins or ends with it."""
        sums: dict[str, float] = {}
        best: dict[str, tuple[float, _Tag]] = {}
        for tag, share in zip(self._tags, row.tolist(), strict=True):
            sums[tag.type] = sums.get(tag.type, 0.0) + share
            best[tag.type] = max(best.get(tag.type, (-1.0, tag)), (share, tag), key=lambda each: each[0])
        type_ = max(sums, key=lambda name: sums[name])
        tag = best[type_][1]
        return type_, sums[type_], tag.begins, tag.ends


class _OpenSpan:
    """A span that may go on: its tokens so far."""

    def __init__(self, type_: str, start: int) -> None:
        self.type = type_
        self.over = False
        self._start = self._end = start
        self._scores: list[float] = []

    def add(self, end: int, score: float, *, over: bool) -> None:
        """Add a token."""
        self._end, self.over = end, over
        self._scores.append(score)

    def span(self) -> Span:
        """Return the span; its score is the mean of its tokens'."""
        return Span(self._start, self._end, self.type, sum(self._scores) / len(self._scores))


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without white space around it, and with all of the words that it begins and ends in."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start == end:
        return start, end
    while start > 0 and _of_one_word(text, start):
        start -= 1
    while end < len(text) and _of_one_word(text, end):
        end += 1
    return start, end


def _of_one_word(text: str, at: int) -> bool:
    """Return whether the characters before and behind a place are of one word, in a script that parts words."""
    return all(char.isalnum() and ord(char) < _WITH_SPACES for char in text[at - 1 : at + 1])


def _united(spans: Sequence[Span]) -> list[Span]:
    """Return spans in order; those of one type that overlap, as windows do, are one."""
    made: list[Span] = []
    for type_ in dict.fromkeys(span.type for span in spans):
        own = sorted(span for span in spans if span.type == type_)
        last = own[0]
        for span in own[1:]:
            if span.start < last.end:
                last = Span(last.start, max(last.end, span.end), type_, max(last.score, span.score))
            else:
                made.append(last)
                last = span
        made.append(last)
    return sorted(made)
