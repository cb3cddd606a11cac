"""Unpack the body of an HTTP answer piece by piece, so that a small body cannot become a large one at once."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from penstock.engine.values.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCEPTED = "gzip, deflate"
"""The value of the header ``Accept-Encoding``: what is asked for, and understood."""

_AT_ONCE = 64 * 1024
_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's values for these formats
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}


class UnpackingError(PenstockError):
    """A body that cannot be unpacked.

    Attributes:
        problem: the fault.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class Unpacker:
    """Unpacks one body, which is compressed once at most. It lives as long as the answer.

    Args:
        encoding: the header ``Content-Encoding``; empty if there is none.

    Raises:
        UnpackingError: the body is compressed several times, or in a way that was not asked for.
    """

    __slots__ = ("_begun", "_unpacker", "_window")

    def __init__(self, encoding: str) -> None:
        layers = [name for given in encoding.split(",") if (name := given.strip().lower()) not in ("", "identity")]
        if len(layers) > 1:
            raise UnpackingError(f"the answer is compressed {len(layers)} times; once is accepted")
        if layers and layers[0] not in _WINDOWS:
            raise UnpackingError(f"the answer is compressed in a way that was not asked for; accepted are {ACCEPTED}")
        self._window = _WINDOWS[layers[0]] if layers else 0
        self._unpacker = zlib.decompressobj(self._window) if layers else None
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the unpacked bytes of a piece of the body, at most 64 KiB at once.

        Raises:
            UnpackingError: the piece is broken.
        """
        if self._unpacker is None:
            yield data
            return
        while data:
            if self._unpacker.eof:
                self._unpacker = zlib.decompressobj(self._window)  # gzip allows one file behind the other
            piece = self._unpacked(data)
            if piece:
                yield piece
            data = self._unpacker.unconsumed_tail or self._unpacker.unused_data

    def _unpacked(self, data: bytes) -> bytes:
        assert self._unpacker is not None  # noqa: S101 - the caller has looked
        begun, self._begun = self._begun, True
        try:
            return self._unpacker.decompress(data, _AT_ONCE)
        except zlib.error as error:
            if begun or self._window != _ZLIB:
                raise UnpackingError("the compressed answer is broken") from error
        self._window = _RAW  # some servers take "deflate" for the format without a header
        self._unpacker = zlib.decompressobj(_RAW)
        return self._unpacked(data)

    @property
    def complete(self) -> bool:
        """Whether the body ends where its compression does."""
        return self._unpacker is None or not self._begun or self._unpacker.eof
