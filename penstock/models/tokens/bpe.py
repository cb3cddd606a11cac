"""`BPECounter`: count with an encoding of tiktoken; and where a text can be split so that token counts add up.

The vocabulary of o200k_base is part of the package and needs no network: loading it takes 0.3 s and 60 MB, once a
process. Other encodings are loaded by tiktoken: from its cache, or over the network.

Encodings split a text into pieces before they look for tokens. In no encoding of tiktoken does a piece have a letter or
digit followed by white space, and text that begins with white space is split without looking back. So the counts before
and after such a place add up, whatever follows. The character heuristic splits there too.
"""

from __future__ import annotations

import os
import re
from binascii import a2b_base64
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread

from penstock.engine.values.errors import OptionError, UsageError
from penstock.models.single_flight import PerEventLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tiktoken


_BOUNDARY = re.compile(r"(?<=[^\W_])(?=[ \t\r\n])")


def boundaries(text: str, start: int = 0) -> Iterator[int]:
    """Yield the indexes after ``start`` where a letter or digit is followed by a blank, a tab or a line end."""
    for match in _BOUNDARY.finditer(text, start):
        if match.start() > start:
            yield match.start()


def last_boundary(text: str, start: int = 0) -> int:
    """Return the last such index after ``start``, or ``start``."""
    stop = len(text) - 1
    while stop > start:
        if text[stop] in " \t\r\n" and text[stop - 1].isalnum():
            return stop
        stop -= 1
    return start


def slices(text: str, size: int) -> Iterator[str]:
    """Yield the text in pieces of at most ``size`` characters, cut at boundaries where there are any."""
    start = 0
    while len(text) - start > size:
        window = text[start : start + size]
        stop = last_boundary(window) or size
        yield window[:stop]
        start += stop
    yield text[start:]


SHIPPED = "o200k_base"
"""The encoding whose vocabulary is part of the package."""

VOCABULARY = Path(__file__).parent / "vocabulary" / f"{SHIPPED}.tiktoken"
DIGEST = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The SHA-256 that tiktoken itself expects of the file (tiktoken_ext/openai_public.py)."""

# How o200k_base splits a text, and its special tokens. Tests compare both with tiktoken's own.
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PIECES = "|".join(
    [
        f"{_LEAD}{_UPPER}*{_LOWER}+{_SHORT}",
        f"{_LEAD}{_UPPER}+{_LOWER}*{_SHORT}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
SPECIAL = {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}

_LONGEST = 100_000  # characters given to tiktoken at a time; its splitting recurses on some texts


class BPECounter:
    """Counts tokens as the models of an encoding do. Names of special tokens in a text count as ordinary text.

    Counters are equal if their encodings are. They share the vocabulary. That of ``o200k_base`` is loaded when first
    needed; any other is loaded at once, over the network if tiktoken has not cached it, so that a missing one is
    noticed before the first request.

    Args:
        encoding: the name of an encoding that tiktoken knows. Default: ``o200k_base``.
        owner: the class whose option the encoding is, for errors.

    Raises:
        OptionError: tiktoken does not know the encoding, or its vocabulary cannot be loaded.
    """

    additive = True
    monotone = False
    densest = 4  # a character has up to 4 bytes, each of which may be a token

    def __init__(self, encoding: str = SHIPPED, *, owner: str = "BPECounter") -> None:
        """Check the encoding."""
        if encoding != SHIPPED:
            import tiktoken

            known = tiktoken.list_encoding_names()
            if encoding not in known:
                raise OptionError(owner, "encoding", encoding, f"one of {', '.join(sorted(known))}")
            try:
                load(encoding)
            except UsageError as error:
                raise OptionError(owner, "encoding", encoding, f"one that can be loaded: {error}") from error
        self.name = encoding
        self._encode: Callable[[str], list[int]] | None = None

    def count(self, text: str) -> int:
        """Return how many tokens the text has.

        Raises:
            UsageError: the vocabulary is missing and cannot be downloaded.
        """
        encode = self._encode
        if encode is None:
            encode = self._encode = load(self.name).encode_ordinary
        if len(text) <= _LONGEST:
            return len(encode(text))
        return sum(len(encode(piece)) for piece in slices(text, _LONGEST))

    async def ready(self) -> None:
        """Load the vocabulary in a worker thread, while other tasks go on. Await it before the first count.

        Raises:
            UsageError: the vocabulary is missing and cannot be downloaded.
        """
        if self._encode is None and self.name not in _loaded:
            await to_thread.run_sync(load, self.name, abandon_on_cancel=True, limiter=_TURNS.get())

    def prepare(self) -> None:
        """Begin to load the shipped vocabulary in a thread, so that the first count waits less."""
        if self.name == SHIPPED and SHIPPED not in _loaded and not _threads:
            _threads.append(Thread(target=_try, name="penstock-vocabulary", daemon=True))
            _threads[0].start()

    def __eq__(self, other: object) -> bool:
        """Tell whether both count with the same encoding."""
        return isinstance(other, BPECounter) and self.name == other.name

    def __hash__(self) -> int:
        """Hash by the encoding's name."""
        return hash(self.name)

    def __repr__(self) -> str:
        """Show the encoding."""
        return f"BPECounter({self.name!r})"

    def __reduce__(self) -> tuple[type[BPECounter], tuple[str]]:
        """Pickle as the name; the vocabulary stays where it is."""
        return (BPECounter, (self.name,))


_lock = Lock()
_loaded: dict[str, tiktoken.Encoding] = {}
_threads: list[Thread] = []


def load(name: str) -> tiktoken.Encoding:
    """Return an encoding, loaded once a process. If several threads ask, one loads and the others wait.

    Raises:
        UsageError: the vocabulary is missing and cannot be downloaded.
    """
    found = _loaded.get(name)
    if found is None:
        with _lock:
            if name not in _loaded:
                _loaded[name] = _shipped() if name == SHIPPED else _fetched(name)
            found = _loaded[name]
    return found


_TURNS = PerEventLoop(lambda: CapacityLimiter(1))
"""One task of an event loop waits in a thread: waiters must not use up all threads."""


def _try() -> None:
    with suppress(Exception):  # the next count raises it again
        load(SHIPPED)


def _shipped() -> tiktoken.Encoding:
    import tiktoken

    data = VOCABULARY.read_bytes()
    if sha256(data).hexdigest() != DIGEST:
        raise UsageError(f"the vocabulary {VOCABULARY.name} is damaged; reinstall penstock")
    words = data.split()
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding(SHIPPED, pat_str=PIECES, mergeable_ranks=ranks, special_tokens=SPECIAL)


def _fetched(name: str) -> tiktoken.Encoding:
    import tiktoken

    try:
        return tiktoken.get_encoding(name)
    except Exception as error:
        raise UsageError(
            f"the vocabulary of {name!r} could not be loaded ({type(error).__name__}): tiktoken fetches it over the "
            f"network once; run tiktoken.get_encoding({name!r}) where there is one, with TIKTOKEN_CACHE_DIR set to a "
            f"folder that you bring along, or use {SHIPPED!r}, which ships with penstock"
        ) from error


def _forget_lock() -> None:
    """Make a new lock after a fork: a thread of the parent may have held it, and does not exist in the child."""
    global _lock  # noqa: PLW0603 - only its holder can release a lock
    _lock = Lock()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
