"""Character encodings and compression: a text file, packed or not, as a stream of UTF-8.

UTF-8 (with or without a mark at its start), UTF-16 and UTF-32 are found by their bytes. A byte that is none of these
decides between two cases, by the whole file: where it stands among letters written in UTF-8 it is damage, and becomes
U+FFFD; where the file has no such letters it is Windows-1252, the encoding of older spreadsheets. Both are said in
:attr:`Utf8Stream.notes`.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError

_SUFFIXES = (".gz", ".xz", ".bz2", ".zip")
UNPACKING_ERRORS = (
    EOFError,
    OSError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
)
_BLOCK = 1 << 18  # of this size, what is made of a block stays in the processor's cache
_LOOKED_AT = 4096
_WIDEST_CODE = 32  # bytes
# Windows-1252, and latin-1 for the five bytes without a meaning there.
_WINDOWS = "".join(bytes([k]).decode("cp1252", "ignore") or chr(k) for k in range(256))
_EXCEL = "an Excel workbook; save the sheet as CSV, or read it with pandas.read_excel and pass the frame in Python"
_PICKLE = "a pickle; open it where it was made and save the table as CSV or Parquet"
_OTHER_FORMATS = {
    b"PK\x03\x04": "an archive within an archive; unpack it first",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV",
    b"SQLite format 3": "a database; export its table as CSV",
    b"%PDF": "a PDF; export its table as CSV",
    b"\x89HDF": "an HDF5 file; read it with pandas.read_hdf and pass the frame in Python",
    b"\x93NUMPY": "a NumPy array; pass its columns in Python",
    b"ARROW1": "a Feather file; read it with pandas.read_feather and pass the frame in Python",
    **dict.fromkeys([b"\x80\x03", b"\x80\x04", b"\x80\x05"], _PICKLE),
    b"$FL2@(#)": "an SPSS file; read it with pandas.read_spss and pass the frame in Python",
    b"<stata": "a Stata file; read it with pandas.read_stata and pass the frame in Python",
    b"Obj\x01": "an Avro file; save the table as Parquet or CSV",
    b"7z\xbc\xaf": "a 7z archive; unpack it first",
    b"Rar!": "a RAR archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "packed with Zstandard; unpack it first",
}
_MARKUP = re.compile(
    r"\s*(?:(?P<html><(?:!doctype html|html|head|body|table|meta|style|div)\b)"
    r"|(?P<xml><\?xml|<[a-z][\w:.-]*(?:\s[^<>]*)?>\s*<)"
    r"|(?P<json>\{\s*\"|\[\s*[\[{])|(?P<arff>(?:%[^\n]*\n\s*)*@relation\b))",
    re.IGNORECASE,
)
_MARKED = {
    "html": "a web page (HTML), also if it is named .xls; open it in a spreadsheet and save the sheet as CSV",
    "xml": "XML; export the table as CSV, or read it with pandas.read_xml and pass the frame in Python",
    "json": "JSON; read it with pandas.read_json (lines=True for one record a line) and pass the frame in Python",
    "arff": "an ARFF file; read it with scipy.io.arff.loadarff and pass pandas.DataFrame of its first part in Python",
}


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where it is packed by gzip, xz, bzip2 or zip (of one file), whatever its name."""
    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")  # type: ignore[return-value]  # its type is its own
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(path, "rb")
    if head.startswith(b"BZh") and head[3:4].isdigit():
        return bz2.BZ2File(path, "rb")
    if not head.startswith(b"PK\x03\x04") and not (head.startswith(b"PK\x05\x06") and path.suffix):
        return path.open("rb")
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
            if {"[Content_Types].xml", "content.xml"} & set(names):
                raise InputError(f"Expected {path} to be a text table (CSV), but it is {_EXCEL}.")
            if names and all(name.endswith(".npy") for name in names):
                raise InputError(
                    f"Expected {path} to be a text table (CSV), but it holds NumPy arrays; pass them in Python."
                )
            if len(names) != 1:
                raise InputError(f"Expected {path} to hold one file, but it holds {len(names)}; unpack it first.")
            return archive.open(names[0])  # keeps the archive's file open as long as it is read
    except UNPACKING_ERRORS as error:
        raise _not_unpacked(path, error) from error


def _not_unpacked(path: Path, error: Exception) -> InputError:
    kind = path.suffix.casefold() if path.suffix.casefold() in _SUFFIXES else "packed"
    reason = str(error).rstrip(".") or type(error).__name__
    return InputError(f"Expected {path} to be a complete {kind} file, but its bytes do not unpack: {reason}.")


class Utf8Stream(io.RawIOBase):
    """A text file read as UTF-8, whatever it is written in.

    Args:
        path: The file.
        counted: A sign to be counted, such as the separator.

    Attributes:
        notes: What was not as it should be, in sentences; complete once all has been read.
        count: How often the sign came.
        quoted: Whether there are double quotes.
        codes: Whether whole numbers with leading zeros stand between such signs or line ends.
    """

    def __init__(self, path: Path, counted: str = "") -> None:
        self.path = path
        self.notes: list[str] = []
        self.count = 0
        self.quoted = self.codes = False
        self._edge = b""
        sign = re.escape(counted.encode())
        self._code = re.compile(rb'[\n"' + sign + rb']0[0-9]+[\r\n"' + sign + b"]")
        self._counted = ord(counted) if counted.isascii() and counted else None
        self._source = open_bytes(path)
        self._taken = 0  # bytes of the file before the block that is being decoded
        self._ready = b""
        self._done = False
        self._replaced = self._first_replaced = 0
        head = self._read()
        for magic, what in _OTHER_FORMATS.items():
            if head.startswith(magic):
                raise self._refuse(what)
        self._codec = _codec_of(head, path)
        self._decoder = codecs.getincrementaldecoder(self._codec)()
        self._take(head.removeprefix(codecs.BOM_UTF8))
        if marked := _MARKUP.match(self._ready[:_LOOKED_AT].decode("utf-8", "replace")):
            raise self._refuse(_MARKED[str(marked.lastgroup)])

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes of UTF-8; 0 at the end."""
        while not self._ready and not self._done:
            self._take(self._read())
        view = memoryview(buffer)
        part, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(part)] = part
        return len(part)

    def skip(self, size: int) -> None:
        """Pass over so many bytes at the start; they do not count."""
        while size and (part := self.read(size)):
            size -= len(part)
            if self._counted is not None:
                self.count -= part.count(self._counted)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._source.close()
        super().close()

    def _read(self) -> bytes:
        try:
            return self._source.read(_BLOCK)
        except UNPACKING_ERRORS as error:
            raise _not_unpacked(self.path, error) from error

    def _refuse(self, what: str) -> InputError:
        self.close()
        return InputError(f"Expected {self.path} to be a text table (CSV), but it is {what}.")

    def _take(self, block: bytes) -> None:
        """Make one block ready; an empty one is the end."""
        self._done = not block
        if self._codec == "utf-8" and block.isascii() and not self._decoder.getstate()[0]:
            self._ready = block  # the usual case, at no cost
            zero = block.find(b"\0")
        else:
            text = self._decode(block)
            self._ready = text.encode()
            zero = self._ready.find(b"\0")
        if zero >= 0:
            line = self._lines_before() + self._ready.count(b"\n", 0, zero)
            raise InputError(
                f"Expected {self.path} to be a text table, but line {line} holds a zero byte: the file is damaged; "
                "export it again."
            )
        if self._counted is not None:  # NumPy counts faster than bytes.count
            signs = np.frombuffer(self._ready, dtype=np.uint8)
            ends = signs == self._counted
            self.count += int(np.count_nonzero(ends))
            edge = self._edge + self._ready[:_WIDEST_CODE]  # what stands across two blocks
            self._edge = self._ready[-_WIDEST_CODE:]
            if not self.codes and self._code.search(edge):
                self.codes = True
            if not self.codes and _may_lead(signs, ends):
                self.codes = self._code.search(self._ready) is not None
        self.quoted = self.quoted or b'"' in self._ready
        self._taken += len(block)
        if self._done and self._replaced:
            what = "byte is" if self._replaced == 1 else "bytes are"
            self.notes.append(
                f"{self._replaced} {what} not UTF-8, the first in line {self._first_replaced}; read as the sign \ufffd."
            )

    def _decode(self, block: bytes) -> str:
        if self._codec == "cp1252":
            return codecs.charmap_decode(block, "strict", _WINDOWS)[0]
        pending = self._decoder.getstate()[0]
        try:
            return self._count_replaced(self._decoder.decode(block, final=self._done))
        except UnicodeDecodeError as error:
            if self._codec != "utf-8":
                raise InputError(
                    f"Expected {self.path} to be in {self._codec.upper()}, as it begins, but it cannot be read: "
                    f"{error}; save it as UTF-8."
                ) from error
        letters, bad = _count_utf8(self.path)
        if letters >= bad:
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        else:
            self._codec = "cp1252"
            self.notes.append("The file is not UTF-8; it was read as Windows-1252.")
        return self._decode(pending + block)

    def _lines_before(self) -> int:
        """Number of the line in which the current block begins; counted only where it is to be said."""
        with open_bytes(self.path) as source:
            return 1 + sum(
                source.read(min(_BLOCK, self._taken - k)).count(b"\n") for k in range(0, self._taken, _BLOCK)
            )

    def _count_replaced(self, text: str) -> str:
        if self._decoder.errors == "replace" and (found := text.count("\ufffd")):
            if not self._replaced:
                self._first_replaced = self._lines_before() + text.partition("\ufffd")[0].count("\n")
            self._replaced += found
        return text


def _may_lead(signs: NDArray[np.uint8], ends: NDArray[np.bool_]) -> bool:
    """Whether a zero that begins a field is followed by a digit; much faster than the pattern that decides."""
    before = ends | (signs == ord("\n")) | (signs == ord('"'))
    first = np.flatnonzero(before[:-2] & (signs[1:-1] == ord("0")))
    return bool((signs[first + 2] - np.uint8(ord("0")) < 10).any())


def _codec_of(head: bytes, path: Path) -> str:
    """The encoding of a file by its first block, UTF-8 unless there are zero bytes."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" not in head[:_LOOKED_AT]:
        return "utf-8"
    for name, zeros in (("utf-16-le", head[1:_LOOKED_AT:2]), ("utf-16-be", head[0:_LOOKED_AT:2])):
        if zeros.count(0) > 0.4 * len(zeros):
            return name
    raise InputError(
        f"Expected {path} to be a text table in UTF-8, but it holds zero bytes: it is another format; export it as CSV."
    )


def _count_utf8(path: Path) -> tuple[int, int]:
    """How many letters beyond ASCII a file has in UTF-8, and how many bytes that are none."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    letters = bad = 0
    with open_bytes(path) as source:
        while True:
            block = source.read(_BLOCK)
            text = decoder.decode(block, final=not block)
            wrong = text.count("\ufffd")
            bad += wrong
            letters += len(text) - len(text.encode("ascii", "ignore")) - wrong
            if not block:
                return letters, bad
