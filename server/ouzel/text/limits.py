"""What a text must be before it is spoken."""

from __future__ import annotations

import codecs
import unicodedata

from ouzel.errors import RequestError, TextTooLongError

__all__ = ["LONGEST_TEXT", "check_text", "decode_text"]

#: letters (code points) of one request
LONGEST_TEXT = 4096

_BLANK_CONTROLS = "\t\n\v\f\r\x85"


def check_text(text: str, *, longest: int = LONGEST_TEXT, param: str = "input") -> str:
    """`text` in composed form (NFC) and without control characters, which have no sound; tab and newline stay.

    :raises TextTooLongError: when it has more than `longest` letters
    :raises RequestError: when nothing but blanks is in it, or half a surrogate pair
    """
    if len(text) > longest:
        raise TextTooLongError(f"{param}: {len(text)} letters are more than the {longest} of one request", param=param)
    half = next((char for char in text if "\ud800" <= char <= "\udfff"), None)
    if half is not None:
        place = text.index(half)
        raise RequestError(f"{param}: half a surrogate pair, U+{ord(half):04X}, at letter {place}", param=param)
    text = "".join(char for char in text if char in _BLANK_CONTROLS or unicodedata.category(char) != "Cc")
    text = unicodedata.normalize("NFC", text.removeprefix("\ufeff"))
    if not text.strip():
        raise RequestError(f"{param}: a text to speak is needed, not an empty or blank one", param=param)
    return text


def decode_text(data: bytes, *, param: str = "input") -> str:
    """UTF-8 to text, with or without a byte order mark.

    :raises RequestError: when `data` isn't UTF-8; the message names the byte
    """
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        found = f"byte 0x{error.object[error.start]:02X} at offset {error.start}"
        raise RequestError(f"{param}: not UTF-8: {found}", param=param) from error
