"""Files by name: plain, compressed or behind a URL; what their names say of their format, and globs."""

from __future__ import annotations

import glob
import io
import os
import re
import shlex
import sys
import zlib
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, cast

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.rows.reading import RowsError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from typing_extensions import Buffer

Compression = Literal["gzip", "zstd"]
FileFormat = Literal["jsonl", "text", "csv", "parquet"]

COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}
"""The compression that the last ending of a name says."""

_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The bytes that a compressed file begins with."""

FORMATS: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".md": "text",
    ".log": "text",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
"""The format that the ending of a name says, before the ending of a compression."""

PIECE = 2048
"""How many compressed bytes are decompressed at once: those of gzip hold at most 2 MiB, those of zstd 64 MiB."""

_BUFFER = 256 * 1024

MEMBER_BYTES = 1024 * 1024
MEMBER_SECONDS = 10.0
"""When a part of a compressed output ends, on its own a whole compressed file: what a crash loses at most."""


class BrokenFileError(RowsError):
    """A file that cannot be read to its end. The text says why."""


def extra_module(name: str, feature: str) -> Any:
    """Import a module of the extra ``data``.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(feature, "data") from error


def format_of(name: str) -> FileFormat | None:
    """Return the format that the name of a file says; None if it says none."""
    return FORMATS.get(Path(_uncompressed(name)).suffix.lower())


def compression_of(name: str) -> Compression | None:
    """Return the compression that the name of a file says; None if it says none."""
    return COMPRESSIONS.get(Path(name).suffix.lower())


def delimiter_of(name: str) -> str:
    """Return what separates the columns of a CSV file of this name."""
    return "\t" if _uncompressed(name).lower().endswith(".tsv") else ","


def _uncompressed(name: str) -> str:
    return name if compression_of(name) is None else name[: -len(Path(name).suffix)]


def is_url(name: str) -> bool:
    """Return whether a name is a URL; a letter and a colon are a drive."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", name) is not None


# Names


def matched(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files that the names stand for, the matches of a glob sorted.

    A name that exists is that file, whatever characters it has.

    Raises:
        RowsError: a glob matches no file, or a file is named twice.
    """
    found = [file for name in names for file in _matches(name)]
    name, times = Counter(found).most_common(1)[0]
    if times > 1:
        raise RowsError(f"{name} is given twice as input; give each file once")
    return tuple(found)


def _matches(name: str) -> list[str]:
    if not glob.has_magic(name) or (not is_url(name) and Path(name).exists()):
        return [name]
    if is_url(name):
        with _remote_errors(name, "read"):
            system, path = extra_module("fsspec", "a URL as a file").core.url_to_fs(name)
            files = sorted(system.unstrip_protocol(each) for each in system.glob(path))
    else:
        files = sorted(each for each in glob.glob(name, recursive=True) if not Path(each).is_dir())  # noqa: PTH207
    if not files:
        raise RowsError(f"no file matches {name}")
    return files


# Reading


class _ArchiveMember(Protocol):
    """Decompresses one member of a gzip file, or one frame of a zstd file."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, /) -> bytes: ...


def _members_of(compression: Compression) -> Callable[[], _ArchiveMember]:
    if compression == "gzip":
        return lambda: cast("_ArchiveMember", zlib.decompressobj(wbits=31))
    zstandard = extra_module("zstandard", "reading or writing .zst")
    return lambda: cast("_ArchiveMember", zstandard.ZstdDecompressor().decompressobj())


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Decompressed(io.RawIOBase):
    """The decompressed bytes of a stream, of all its members.

    Attributes:
        taken: how many compressed bytes were read.
        whole: where the last whole member ends, in compressed bytes.
    """

    def __init__(self, stream: _Readable, compression: Compression) -> None:
        self.taken = 0
        self.whole = 0
        self._stream = stream
        self._compression = compression
        self._new_member = _members_of(compression)
        self._member: _ArchiveMember | None = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Fill the buffer.

        Raises:
            BrokenFileError: the file is damaged, or ends too early.
        """
        while not self._output:
            piece = self._input or self._stream.read(PIECE)
            self.taken += 0 if self._input else len(piece)
            self._input = b""
            if not piece:
                if self._member is not None:
                    raise BrokenFileError(f"the {self._compression} data end in the middle; the file is not whole")
                return 0
            self._output = memoryview(self._decompressed(piece))
        into = memoryview(buffer)
        size = min(len(into), len(self._output))
        into[:size] = self._output[:size]
        self._output = self._output[size:]
        return size

    def _decompressed(self, piece: bytes) -> bytes:
        if self._member is None:
            piece = piece.lstrip(b"\0") if self.whole else piece  # tape drives fill up the end of a file
            if not piece:
                return b""
            self._member = self._new_member()
        try:
            data = self._member.decompress(piece)
        except Exception as error:  # each library has an error of its own
            self._input, self._member = piece, None  # whoever reads behind a glance gets the same error
            raise BrokenFileError(f"the {self._compression} data are damaged") from error
        if self._member.eof:
            self._input = self._member.unused_data
            self.whole = self.taken - len(self._input)
            self._member = None
        return data


@dataclass(slots=True)
class OpenedFile:
    """A file that is open for reading.

    Attributes:
        name: its name.
        stream: its bytes, decompressed.
        size: its size as it is stored, in bytes; None if it is not known.
        unexpected: a sentence about anything unexpected, with a cure; or None.
        once: whether it can be read only once: stdin, or a pipe.
    """

    name: str
    stream: io.BufferedReader
    size: int | None
    unexpected: str | None
    once: bool
    _decompressed: Decompressed | None

    @property
    def compressed(self) -> bool:
        """Whether it is compressed."""
        return self._decompressed is not None

    def glance(self) -> bytes:
        """Return the first bytes, which are read again; fewer if they are damaged."""
        try:
            return self.stream.peek(1)
        except RowsError:
            return b""

    def taken(self, read: int) -> int:
        """Return how many bytes of the file as it is stored were read, if ``read`` bytes of its content were."""
        return read if self._decompressed is None else self._decompressed.taken


@contextmanager
def opened(name: str) -> Generator[OpenedFile]:
    """Open a file for reading; ``-`` is stdin, which stays open.

    It is decompressed if its first bytes say that it is compressed, whatever its name says.

    Raises:
        RowsError: it cannot be read.
        MissingExtraError: what reads it is not installed.
    """
    if name == "-":
        yield _opened(name, _stdin())
        return
    with closing(_open_remote(name, "rb") if is_url(name) else open_local(name)) as stream:
        yield _opened(name, stream)


def _opened(name: str, stream: IO[bytes]) -> OpenedFile:
    as_it_is = isinstance(stream, io.BufferedReader)
    buffered = cast("io.BufferedReader", stream if as_it_is else io.BufferedReader(cast("Any", stream), _BUFFER))
    start = buffered.peek(4)
    found = _compression_by(start)
    expected = compression_of(name)
    unexpected = None
    if name != "-" and found != expected:
        unexpected = f"{name} is compressed with {found}, which its name does not say; it is decompressed"
        if found is None:
            what = (
                f"not compressed with {expected}; it is read as it is" if start else "empty, not even an empty archive"
            )
            unexpected = f"{name} is {what}"
    size = _size_of(buffered, stream)
    once = name == "-" or not (is_url(name) or buffered.seekable())
    if found is None:
        return OpenedFile(name, buffered, size, unexpected, once, None)
    decompressed = Decompressed(buffered, found)
    made = OpenedFile(name, io.BufferedReader(decompressed, _BUFFER), size, unexpected, once, decompressed)
    inner = _compression_by(made.glance())
    if inner is not None:
        once_less = f"{found} -dc" + ("" if name == "-" else f" {shlex.quote(name)}")
        raise RowsError(
            f"{'stdin' if name == '-' else name} is compressed twice ({inner} in {found}); decompress it once, and "
            f"read it from stdin: {once_less} | penstock run ..."
        )
    return made


def _compression_by(start: bytes) -> Compression | None:
    """Return the compression that the first bytes of a file say."""
    return next((_MAGIC[magic] for magic in _MAGIC if start.startswith(magic)), None)


def _size_of(buffered: io.BufferedReader, stream: IO[bytes]) -> int | None:
    size = getattr(stream, "size", None)
    if isinstance(size, int):
        return size
    try:
        return os.fstat(buffered.fileno()).st_size or None
    except (OSError, ValueError):
        return None


def _stdin() -> IO[bytes]:
    """Return the bytes of stdin, with a reader of our own: a read of sys.stdin holds a lock that the exit needs."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # it is not a file of the system
        return sys.stdin.buffer


def open_local(name: str) -> IO[bytes]:
    """Open a plain file of this machine for reading.

    Raises:
        RowsError: it cannot be read.
    """
    try:
        return Path(name).open("rb")
    except IsADirectoryError as error:
        raise RowsError(f"cannot read {name}: it is a folder; name its files, for example '{name}/*.jsonl'") from error
    except OSError as error:
        raise RowsError(f"cannot read {name}: {reason_of(error)}") from error


# URLs


@contextmanager
def _remote_errors(name: str, verb: str) -> Generator[None]:
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:  # the text of fsspec names the package
        raise RowsError(f"cannot {verb} {name}: {error}") from error
    except ValueError as error:
        raise RowsError(f"cannot {verb} {name}: fsspec does not support this kind of URL") from error
    except Exception as error:  # each library has errors of its own
        raise RowsError(f"cannot {verb} {name}: {reason_of(error)}") from error


def _open_remote(name: str, mode: str) -> IO[bytes]:
    with _remote_errors(name, "read" if mode == "rb" else "write"):
        return cast("IO[bytes]", extra_module("fsspec", "a URL as a file").open(name, mode).open())


# Writing


class _Compressing(io.RawIOBase):
    """Compresses writes into members that end where a write ended, so each can be read by itself."""

    def __init__(self, stream: IO[bytes], compress: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._compress = compress
        self._held: list[bytes] = []
        self._size = 0
        self._ends = 0.0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        piece = bytes(data)
        if not self._held:
            self._ends = monotonic() + MEMBER_SECONDS
        self._held.append(piece)
        self._size += len(piece)
        if self._size >= MEMBER_BYTES or monotonic() >= self._ends:
            self._end_member()
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            try:
                self._end_member()
            finally:
                super().close()
                self._stream.close()

    def _end_member(self) -> None:
        if self._held:
            member = self._compress(b"".join(self._held))
            self._held, self._size = [], 0
            self._stream.write(member)
            self._stream.flush()


def _compressor(compression: Compression) -> Callable[[bytes], bytes]:
    if compression == "gzip":
        gzip = import_module("gzip")
        return lambda data: cast("bytes", gzip.compress(data, 6, mtime=0))
    zstandard = extra_module("zstandard", "reading or writing .zst")
    return lambda data: cast("bytes", zstandard.ZstdCompressor(write_checksum=True).compress(data))


@contextmanager
def written(name: str, *, append: bool = False) -> Generator[IO[str]]:
    """Open a file for writing text, in UTF-8 with LF line ends, compressed if its name says so.

    Each call of ``write`` on it should write whole lines: a crash cuts a compressed file only between calls.

    Raises:
        RowsError: it cannot be written.
        MissingExtraError: what writes it is not installed.
    """
    compression = compression_of(name)
    compress = None if compression is None else _compressor(compression)
    stream = written_bytes(name, append=append)
    raw = cast("BinaryIO", stream if compress is None else _Compressing(stream, compress))
    # Half a surrogate pair, which UTF-8 cannot encode, is written as \udXXX, which JSON reads back as the same.
    with io.TextIOWrapper(
        raw, encoding="utf-8", errors="backslashreplace", newline="\n", write_through=compress is not None
    ) as text:
        yield text


def written_bytes(name: str, *, append: bool = False) -> IO[bytes]:
    """Open a file for writing bytes.

    Raises:
        RowsError: it cannot be written.
        MissingExtraError: what writes it is not installed.
    """
    if is_url(name):
        return _open_remote(name, "ab" if append else "wb")
    try:
        return Path(name).open("ab" if append else "wb")
    except OSError as error:
        raise RowsError(f"cannot write {name}: {reason_of(error)}") from error
