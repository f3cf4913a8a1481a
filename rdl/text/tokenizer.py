"""Split RDL text into tokens, one at a time: unread text costs nothing."""

from __future__ import annotations

import re
from typing import Final

# Kinds of tokens: the numbers of the groups in `_TOKEN`, so that a match gives its kind.
PUNCTUATION: Final = 1
QUANTITY: Final = 2  # 240, 1.5, 90s, 1h30m, 2GiB, 500m
KEY: Final = 3  # a word with '=' after it
WORD: Final = 4
BUNDLE: Final = 5  # <2 GiB memory, 1 cpu>
STRING: Final = 6  # in double quotes, escapes as in JSON
INSTANT: Final = 7  # 2026-01-05T09:00:00Z
CLOCK: Final = 8  # 06:00, 22:30:15
END: Final = 9
OTHER: Final = 10  # a character that starts no token

# No two alternatives start the same way, and repetitions do not backtrack: matching is linear for
# any text.
_SKIP: Final = r"(?:[ \t\r\n]++|\#[^\n]*+)*+"

# Python before 3.11.4 does not undo what a possessive group has read if it then fails: such groups
# start with a lookahead, and a plain group reads names.
_NUMBER: Final = r"\d++(?:(?=\.\d)\.\d++)?+"

_TOKEN: Final = re.compile(
    rf"""{_SKIP}(?:
      (->|\.\.|[(),;:=+\[\]])
    | ((?!\d{{4}}-\d\d-\d\d|\d\d?:\d){_NUMBER}(?:[A-Za-z_]++(?:{_NUMBER})?+)*+)
    | ([A-Za-z_](?:[\w./]++|-(?!>))*(?={_SKIP}=))
    | ([A-Za-z_](?:[\w./]++|-(?!>))*)
    | (<(?:[^<>();\#]++|\#[^\n]*+)*+>)
    | ("(?:[^"\\\n]|(?=\\.)\\.)*+")
    | (\d{{4}}-\d\d-\d\d[0-9A-Za-z:.+\-]*+)
    | (\d\d?:\d[\d:.]*+)
    | (\Z)
    | (.)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)


#: An opening bracket and a colon, after blanks and comments.
OPENS: Final = re.compile(rf"{_SKIP}\(")
COLON: Final = re.compile(rf"{_SKIP}:")


class Tokenizer:
    """A cursor over the tokens of one source.

    Attributes
    ----------
    source
        The whole text.
    kind, text
        The current token.
    """

    __slots__ = ("_match", "_next", "kind", "source", "text")

    def __init__(self, source: str) -> None:
        self.source = source
        self._next = _TOKEN.finditer(source).__next__
        self.advance()

    def advance(self) -> None:
        """Move to the next token; past the end the current token stays `END`."""
        match = self._match = self._next()
        kind = self.kind = match.lastindex or OTHER
        self.text: str = match[kind]

    @property
    def span(self) -> tuple[int, int]:
        """``(start, end)`` of the current token in the source."""
        return self._match.span(self.kind)

    def before(self, mark: re.Pattern[str]) -> bool:
        """Return whether `mark` follows the current token."""
        return mark.match(self.source, self._match.end()) is not None

    @property
    def start(self) -> int:
        """Start of the current token in the source."""
        return self._match.start(self.kind)
