"""Format RDL text: the same tokens and comments, with standard indents and line breaks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from rdl.text.tokenizer import BUNDLE, END, KEY, Tokenizer

_WIDTH: Final = 88
_INDENT: Final = "  "
_COMMENT = re.compile(r"#[^\n]*")
#: Tokens without a blank after them, and tokens without a blank before them.
_CLOSE_BEHIND: Final = frozenset({"(", "[", "=", "+", ".."})
_CLOSE_BEFORE: Final = frozenset({"(", ")", "[", "]", ",", ";", ":", "=", ".."})


def lay_out_text(source: str) -> str:
    """Return `source` in the standard layout, comments included; it ends with a line break.

    Lines have at most 88 characters if their parts allow it. Formatting twice changes nothing, and
    the meaning of the text stays the same.

    Parameters
    ----------
    source
        A valid text; for others the result is meaningless.
    """
    items = _LayoutReader(source).source()
    lines: list[str] = []
    for item in items:
        if item.apart and lines:
            lines.append("")
        lines.extend(_item_lines(item))
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _Token:
    """A token and the comments around it.

    `leading` comments were on lines of their own before it, `trailing` ones on its line after it;
    `apart` is True if a blank line was before all of them.
    """

    kind: int
    text: str
    leading: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)
    apart: bool = False


@dataclass(slots=True)
class _Item:
    """An argument, an arrow, a definition or the request: words, then an optional group.

    `separator` follows it, ``,``, ``;`` or nothing.
    """

    words: list[_Token] = field(default_factory=list)
    group: _Group | None = None
    leading: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)
    separator: str = ""
    apart: bool = False
    top: bool = False


@dataclass(slots=True)
class _Group:
    """The text between brackets; `closing` are comments before the closing one."""

    items: list[_Item] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)


class _LayoutReader:
    """Groups the tokens of a source by its brackets."""

    def __init__(self, source: str) -> None:
        self._tokens = _tokens_of(source)
        self._at = 0

    def source(self) -> list[_Item]:
        """Return definitions and the request; final comments become an item without words."""
        items: list[_Item] = []
        while self._here.kind != END:
            item = self._item()
            item.top = True
            items.append(item)
        last = self._here
        if last.leading:
            items.append(_Item(leading=last.leading, apart=last.apart))
        return items

    @property
    def _here(self) -> _Token:
        return self._tokens[self._at]

    def _item(self) -> _Item:
        """Read up to the separator, included, or the closing bracket on this level."""
        item = _Item(apart=self._here.apart)
        depth = 0
        while self._here.kind != END:
            token = self._here
            if depth == 0 and token.text in (",", ";", ")"):
                break
            if token.text in ("[", "]"):
                depth += 1 if token.text == "[" else -1
            self._at += 1
            if token.text == "(":
                item.group = self._group(token, item)
            else:
                item.leading += token.leading
                item.words.append(token)
                self._keep_trailing(token, item)
        if self._here.text in (",", ";"):
            token = self._here
            item.separator = token.text
            item.leading += token.leading
            item.trailing += token.trailing
            self._at += 1
        return item

    def _keep_trailing(self, token: _Token, item: _Item) -> None:
        """Store comments after a token: last ones stay there, others move before the item."""
        last = self._here.text in (",", ";", ")") or self._here.kind == END
        (item.trailing if last else item.leading).extend(token.trailing)

    def _group(self, opening: _Token, item: _Item) -> _Group:
        group = _Group()
        item.leading += opening.leading
        first = list(opening.trailing)
        while self._here.text != ")" and self._here.kind != END:
            inner = self._item()
            inner.leading = first + inner.leading
            first = []
            group.items.append(inner)
        closing = self._here
        group.closing = first + closing.leading
        if closing.kind != END:
            self._at += 1
            self._keep_trailing(closing, item)
        return group


def _tokens_of(source: str) -> list[_Token]:
    """Return the tokens, the last of kind END, with their comments."""
    tokenizer = Tokenizer(source)
    found: list[_Token] = []
    end = 0
    while True:
        token = _Token(tokenizer.kind, tokenizer.text)
        gap = source[end : tokenizer.start]
        breaks = 0
        position = 0
        for comment in _COMMENT.finditer(gap):
            breaks += gap.count("\n", position, comment.start())
            position = comment.end()
            text = comment[0].rstrip()
            if not breaks and found:
                found[-1].trailing.append(text)
            else:
                token.leading.append(text)
        first = _COMMENT.search(gap)
        head = gap[: first.start()] if first is not None else gap
        if first is not None and found and "\n" not in head:  # it stays on the previous line
            rest = gap[first.end() :]
            following = _COMMENT.search(rest)
            head = rest[: following.start()] if following is not None else rest
        token.apart = head.count("\n") > 1
        found.append(token)
        if token.kind == END:
            return found
        end = tokenizer.span[1]
        tokenizer.advance()


def _item_lines(item: _Item) -> list[str]:
    """Return the lines of an item, its comments and separator included."""
    if not item.words:
        return list(item.leading)
    *before, behind = item.trailing or [""]  # one comment stays after an item
    lines = [*item.leading, *before, *_body_lines(item)]
    lines[-1] += item.separator + (behind and f"  {behind}")
    return lines


def _body_lines(item: _Item) -> list[str]:
    flat = _flat(item)
    if flat is not None and len(flat) < _WIDTH:
        return [flat]
    words = _words(item)
    if item.group is None:
        return words.split("\n")
    lines = [f"{words}("]
    # Parts that need a line of their own, and parts that may share one with neighbours.
    shared: list[str] = []
    for inner in item.group.items:
        simple = inner.group is None and not (inner.leading or inner.trailing)
        if not simple:
            lines.extend(_filled(shared))
            shared = []
            lines.extend(_INDENT + line for line in _item_lines(inner))
        else:
            shared.append(_words(inner) + inner.separator)
    lines.extend(_filled(shared))
    lines.extend(_INDENT + comment for comment in item.group.closing)
    return [*lines, ")"]


def _filled(parts: list[str]) -> list[str]:
    """Return indented lines, each with as many parts as fit."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 1 < _WIDTH and "\n" not in lines[-1]:
            lines[-1] += f" {part}"
        else:
            lines.append(_INDENT + part)
    return [line for entry in lines for line in entry.split("\n")]


def _flat(item: _Item) -> str | None:
    """Return an item on one line without its separator; None if comments prevent it."""
    words = _words(item)
    if "\n" in words:
        return None
    if item.group is None:
        return words
    if item.group.closing:
        return None
    parts: list[str] = []
    for inner in item.group.items:
        if inner.leading or inner.trailing:
            return None
        flat = _flat(inner)
        if flat is None:
            return None
        parts.append(flat + inner.separator)
    return f"{words}({' '.join(parts)})"


def _words(item: _Item) -> str:
    """Return the tokens before the group, with blanks between them."""
    text = ""
    before: _Token | None = None
    for token in item.words:
        close = (
            before is None or before.text in _CLOSE_BEHIND or token.text in _CLOSE_BEFORE
        ) and before is not token
        if item.top and before is not None and "=" in (token.text, before.text):
            close = before.kind != KEY and before.text != "="  # a definition: name = value
        text += ("" if close else " ") + _word(token)
        before = token
    return text


def _word(token: _Token) -> str:
    if token.kind != BUNDLE or "#" in token.text:
        return token.text
    amounts = (" ".join(amount.split()) for amount in token.text[1:-1].split(","))
    return f"<{', '.join(amounts)}>"
