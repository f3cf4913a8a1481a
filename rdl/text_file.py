"""Decode files by one rule for encodings, and normalize names to one form of Unicode."""

from __future__ import annotations

import codecs
import unicodedata
from typing import Final

from rdl.read_error import ReadError

#: Byte order marks of other encodings; UTF-32 first, since its mark begins with that of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class TextError(ReadError):
    """Bytes that are not text."""


def utf8_of(raw: bytes) -> bytes:
    """Return a file's bytes in UTF-8 without a byte order mark.

    Bytes without a mark are returned unchanged, valid UTF-8 or not.

    Raises
    ------
    TextError
        If bytes with a mark of UTF-16 or UTF-32 are invalid in that encoding.
    """
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return _decoded(raw, encoding).encode()
    return raw.removeprefix(codecs.BOM_UTF8)


def text_of(raw: bytes) -> str:
    """Return the text of a file: UTF-8, or the encoding of its byte order mark.

    Raises
    ------
    TextError
        If it is not text.
    """
    return _decoded(utf8_of(raw), "utf-8")


def name_form(name: str) -> str:
    """Return a name in the form for comparison:

    Unicode NFC. Keyboards and systems write ``é`` as one character or as two; both are the same
    name.
    """
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.upper()
        message = f"not {name} text: {error.reason} at byte {error.start}"
        raise TextError(message, "save it as UTF-8") from error
