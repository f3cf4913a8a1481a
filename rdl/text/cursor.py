"""The parser's position in the text: reports problems, and finds where to continue."""

from __future__ import annotations

from typing import Final, NoReturn

from rdl.errors import MALFORMED, Problem, TooManyProblemsError, quote
from rdl.expressions import Span
from rdl.limits import MOST_PROBLEMS
from rdl.operators import ARGUMENTS
from rdl.resources import RESOURCE_ALIASES
from rdl.text.tokenizer import BUNDLE, CLOCK, END, INSTANT, KEY, QUANTITY, STRING, WORD, Tokenizer

#: Kinds of tokens that can only start an argument: before such a token a comma is missing.
STARTS_ARGUMENT: Final = frozenset({BUNDLE, CLOCK, INSTANT, KEY, QUANTITY, STRING})


class RuleError(Exception):
    """A syntax rule broken at a token; caught where the parser can continue.

    Attributes
    ----------
    problem
        The problem to report.
    whole
        True if the other arguments of the operator cannot be identified.
    """

    def __init__(self, problem: Problem, *, whole: bool = False) -> None:
        self.problem = problem
        self.whole = whole
        super().__init__(problem.message)


class Cursor:
    """Moves over the tokens, and collects problems.

    Attributes
    ----------
    tokens
        The tokenizer, at the current token.
    problems
        In the order they were found.
    """

    def __init__(self, source: str) -> None:
        self.tokens = Tokenizer(source)
        self.problems: list[Problem] = []

    def report(self, message: str, span: Span, fix: str | None = None) -> None:
        """Keep a problem; after MOST_PROBLEMS raise TooManyProblemsError."""
        self.keep(Problem(MALFORMED, message, span, fix=fix))

    def keep(self, problem: Problem) -> None:
        """Keep a problem; after MOST_PROBLEMS raise TooManyProblemsError."""
        self.problems.append(problem)
        if len(self.problems) >= MOST_PROBLEMS:
            raise TooManyProblemsError

    def wrong(self, message: str, fix: str | None = None) -> NoReturn:
        """Raise RuleError at the current token."""
        raise RuleError(Problem(MALFORMED, message, self.tokens.span, fix=fix))

    def stop(self, message: str, fix: str | None = None, span: Span | None = None) -> NoReturn:
        """Keep a problem and raise TooManyProblemsError."""
        self.keep(Problem(MALFORMED, message, span or self.tokens.span, fix=fix))
        raise TooManyProblemsError

    def token_words(self) -> str:
        """Return the current token for a message."""
        return "the end of the text" if self.tokens.kind == END else quote(self.tokens.text)

    def separator(self, opened: int, ends: str = ")") -> bool:
        """Skip a comma; return whether another argument follows, False at an end."""
        tokens = self.tokens
        while True:
            if tokens.text == ",":
                tokens.advance()
                if tokens.kind == END:
                    continue
                if tokens.text not in ends:
                    return True
                message = f"expected an argument before {self.token_words()}"
                self.report(message, tokens.span, "drop the ','")
                return False
            if tokens.kind == END:
                self.never_closed(opened)
            if tokens.text in ends:
                return False
            self.report(
                f"expected ',' or ')' before {self.token_words()}", tokens.span, self.unit_fix()
            )
            if tokens.kind in STARTS_ARGUMENT or tokens.text in ARGUMENTS:
                return True
            tokens.advance()
            self.skip()

    def unit_fix(self) -> str | None:
        """Return a fix if the current word looks like a unit without its number."""
        tokens = self.tokens
        before = tokens.source[max(0, tokens.start - 20) : tokens.start].rstrip()
        if tokens.kind == WORD and tokens.text.lower() in RESOURCE_ALIASES:
            return (
                f"amounts of {tokens.text} belong in the bundle, such as <500m cpu, 2 GiB memory>"
            )
        if tokens.kind == WORD and before[-1:].isdecimal() and tokens.text not in ARGUMENTS:
            return "a unit stands right behind its number, such as 5m"
        return None

    def never_closed(self, opened: int) -> NoReturn:
        """Stop because the bracket at `opened` is not closed."""
        self.stop("'(' is never closed", "write ')' at its end", (opened, opened + 1))

    def skip(self, *, commas: bool = False) -> None:
        """Go to the next comma or closing bracket on this level (past commas if `commas`)."""
        tokens = self.tokens
        depth = 0
        while tokens.kind != END:
            text = tokens.text
            if depth == 0 and (text in (")", ";") or (text == "," and not commas)):
                return
            if text in ("(", "["):
                depth += 1
            elif text in (")", "]"):
                depth = max(0, depth - 1)
            tokens.advance()
