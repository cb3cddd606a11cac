"""`SentenceEmbedder`: vectors of the meaning of sentences, by a model on this machine (extra ``embeddings``)."""

from __future__ import annotations

import math
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Protocol, cast

import anyio
import anyio.to_thread

from penstock.engine.values.errors import MissingExtraError, ModelError, OptionError
from penstock.models.embedders.texts import checked_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

_MOST_AT_ONCE = 1_024


class _Numbers(Protocol):
    def tolist(self) -> list[float]: ...


class _Encoder(Protocol):
    """The part of fastembed's ``TextEmbedding`` that is used here."""

    def embed(self, documents: Sequence[str], batch_size: int) -> Iterable[_Numbers]: ...


class SentenceEmbedder:
    """Turns texts into vectors with a sentence model that runs on this machine, through the library fastembed.

    No text leaves the machine. The model is loaded when it is first used. Loading and embedding run in a thread, one
    call at a time, since the model uses all cores. Nothing is downloaded unless ``download=True``.

    Args:
        model: the model, by the name that fastembed lists. The default reads English, up to 512 tokens of a text, and
            has 384 dimensions; ``sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2`` reads fifty languages.
        path: the folder with the model's files; None: fastembed's own folder.
        cache_dir: fastembed's folder of downloaded models; None: its default (``FASTEMBED_CACHE_PATH``).
        download: whether a missing model may be downloaded at first use.
        batch_size: how many texts the model reads at a time, 1 to 1,024; more need more memory. Default: 32.
        threads: how many cores it may use, 1 or more; None: all.

    Attributes:
        name: the model's name.

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: the extra ``embeddings`` is not installed.
    """

    __slots__ = ("_batch", "_encoder", "_load", "_lock", "name")

    def __init__(
        self,
        model: str = "BAAI/bge-small-en-v1.5",
        *,
        path: str | PathLike[str] | None = None,
        cache_dir: str | PathLike[str] | None = None,
        download: bool = False,
        batch_size: int = 32,
        threads: int | None = None,
    ) -> None:
        _check(model, batch_size, threads)
        if find_spec("fastembed") is None:
            raise MissingExtraError("SentenceEmbedder", "embeddings")
        self.name = model
        self._batch = batch_size
        told: dict[str, object] = {"model_name": model, "threads": threads, "local_files_only": not download}
        if path is not None:
            told["specific_model_path"] = str(path)
        if cache_dir is not None:
            told["cache_dir"] = str(cache_dir)
        self._load = told
        self._encoder: _Encoder | None = None
        self._lock = Lock()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order.

        Raises:
            ModelError: the model is not on this machine, cannot be loaded, or failed.
            UsageError: ``texts`` is a single str, whose letters would be embedded, or holds something that is no text.
        """
        given = checked_texts(texts)
        # A thread that computes cannot be stopped: a task that is cancelled does not wait for it.
        return await anyio.to_thread.run_sync(self._embedded, given, abandon_on_cancel=True) if given else []

    def _embedded(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            encoder = self._loaded()
            try:
                vectors = [found.tolist() for found in encoder.embed(texts, batch_size=self._batch)]
            except Exception as error:
                raise ModelError(self.name, f"it failed ({type(error).__name__})") from error
        if len(vectors) != len(texts) or not all(map(math.isfinite, (number for one in vectors for number in one))):
            raise ModelError(self.name, f"it was asked for {len(texts)} vectors, but returned something else")
        return vectors

    def _loaded(self) -> _Encoder:
        if self._encoder is None:
            make = cast("Callable[..., _Encoder]", import_module("fastembed").TextEmbedding)
            try:
                self._encoder = make(**self._load)
            except Exception as error:
                problem = (
                    f"it is not on this machine, or cannot be loaded ({type(error).__name__}); name its folder with "
                    "path=, or let it be downloaded once with download=True"
                )
                raise ModelError(self.name, problem) from error
        return self._encoder

    def __repr__(self) -> str:
        """Show the model."""
        return f"SentenceEmbedder({self.name!r})"


def _check(model: object, batch_size: object, threads: object) -> None:
    name = "SentenceEmbedder"
    if not isinstance(model, str) or not model.strip():
        raise OptionError(name, "model", model, "the name of a model that fastembed lists")
    if type(batch_size) is not int or not 1 <= batch_size <= _MOST_AT_ONCE:
        raise OptionError(name, "batch_size", batch_size, f"a number of texts from 1 to {_MOST_AT_ONCE:,}")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise OptionError(name, "threads", threads, "a number of cores, 1 or more, or None")
