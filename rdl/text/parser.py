"""Parse RDL text by recursive descent, one function per rule, reporting all problems.

After an error the parser continues at the next comma or closing bracket, so one pass finds the
errors of all arguments. Nothing is built from an unreadable argument.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from rdl.durations import MAX_WORK_MS, TimeTextError, parse_duration, parse_rfc3339
from rdl.errors import (
    MALFORMED,
    Problem,
    RdlError,
    TooManyProblemsError,
    did_you_mean,
    nearest,
    quote,
)
from rdl.expressions import (
    Absolute,
    AfterSubmission,
    Atom,
    Edge,
    Expression,
    Gap,
    Graph,
    Moment,
    Offset,
    Span,
    Window,
)
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.operators import (
    ARGUMENTS,
    MAX_COUNT,
    REQUIRED,
    VARIADIC,
    ArgumentError,
    Reads,
    build,
    check_name,
    missing_arguments,
    usage,
)
from rdl.resources import Resources
from rdl.text.tokenizer import COLON, END, KEY, OPENS, STRING, WORD
from rdl.text.values import READERS, Cursor, RuleError, ValueReader, parse_bundle

#: Fewest characters that an operator adds to a canonical text: ``all(),``.
_SHORTEST_OPERATOR: Final = 6

_TIME: Final = r"(\+ *)?([0-9][0-9A-Za-z:.+\-]*)"
_DURATION: Final = r"([0-9][0-9a-z.]*)"
_COUNT: Final = r"([0-9]{1,9})"
_PLAIN: Final = re.compile(
    rf"window\( *(atom\( *(<[^<>();#]*>) *, *{_COUNT} *, *{_COUNT} *, *{_DURATION} *, *{_DURATION}"
    rf" *\)) *, *{_TIME} *, *{_TIME} *\)"
)

#: Longest text to try: longer ones are rare, and may have bundles of any length.
_MOST_CHARACTERS: Final = 1_000

#: Nesting depth of the operators.
_DEPTH: Final = 2


class _Size(NamedTuple):
    """The size that an expression adds to a request at each use."""

    operators: int
    leaves: int
    edges: int
    depth: int


def parse(text: str, limits: SourceLimits = DEFAULT_LIMITS) -> Expression:
    """Return the expression of `text`.

    Raises
    ------
    RdlError
        With every problem found, each with its span in `text`.
    """
    if len(text) > limits.max_source:
        message = f"the text has {len(text)} characters"
        fix = f"write at most {limits.max_source}"
        raise RdlError((Problem(MALFORMED, message, fix=fix),))
    plain = plain_window(text, limits)
    return _Parser(text, limits).read() if plain is None else plain


class _Call:
    """The arguments of one operator during parsing."""

    __slots__ = ("broken", "children", "given", "named", "operator", "position", "spans", "unclear")

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.given: dict[str, Any] = {}
        self.spans: dict[str, Span] = {}
        self.children: list[Expression] = []
        self.position = 0
        self.named = False
        self.broken = False
        # An argument could not be identified, so missing ones are not reported.
        self.unclear = False


class _Graph:
    """The children and arrows of one graph during parsing."""

    __slots__ = ("broken", "children", "edges", "index_of")

    def __init__(self) -> None:
        self.index_of: dict[str, int] = {}
        self.children: list[Expression] = []
        self.edges: list[Edge] = []
        self.broken = False


class _Parser:
    def __init__(self, source: str, limits: SourceLimits) -> None:
        self.cursor = Cursor(source)
        self.tokens = self.cursor.tokens
        self.values = ValueReader(self.cursor, limits.max_options)
        self.limits = limits
        self.depth = 0
        self.leaves = 0
        self.edges = 0
        self.operators = 0
        self.deepest = 0
        # Defined expressions by name, and their sizes; None if unreadable.
        self.parts: dict[str, tuple[Expression, _Size] | None] = {}
        # Name of the definition that is being parsed.
        self.defining: str | None = None
        # Complete expressions inside unreadable ones.
        self.orphans: list[Expression] = []

    def read(self) -> Expression:
        """Source = { definition } expression [ ";" ] ."""
        expression = None
        try:
            while self.tokens.kind == KEY:
                self.definition()
            expression = self.expression()
            self.end()
        except RuleError as wrong:
            self.cursor.problems.append(wrong.problem)
        except TooManyProblemsError:
            pass  # the problems are complete
        if self.cursor.problems or expression is None:
            ordered = sorted(self.cursor.problems, key=lambda problem: problem.span or (0, 0))
            self.orphans += [] if expression is None else [expression]
            fragments = tuple((orphan, "") for orphan in self.orphans)
            raise RdlError(tuple(ordered), self.tokens.source, fragments)
        return expression

    def definition(self) -> None:
        """Definition = word "=" ( bundle | expression ) ";" ."""
        tokens = self.tokens
        name = tokens.text
        if name in self.values.bundles or name in self.parts:
            what = "bundle " if name in self.values.bundles else ""
            self.cursor.report(f"{what}{quote(name)} is defined twice", tokens.span, "rename one")
        elif name in ARGUMENTS:
            message = f"{quote(name)} is an operator, and cannot be defined"
            self.cursor.report(message, tokens.span, "choose another name")
        tokens.advance()
        tokens.advance()
        is_part = tokens.kind == STRING or (
            tokens.kind == WORD
            and tokens.text not in self.values.bundles
            and (tokens.text in self.parts or not self.at_end_of_definition())
        )
        try:
            if is_part:
                self.define_part(name)
            else:
                self.values.bundles[name] = self.values.bundle(name)
            if tokens.text != ";":
                self.cursor.wrong(
                    f"expected ';' before {self.cursor.token_words()}", "end a definition with ';'"
                )
        except RuleError as wrong:
            self.cursor.keep(wrong.problem)
            if is_part:
                self.parts.setdefault(name, None)
            else:
                self.values.bundles.setdefault(name, Resources())
            while tokens.text != ";":
                if tokens.kind == END:
                    raise TooManyProblemsError from wrong
                tokens.advance()
        tokens.advance()

    def at_end_of_definition(self) -> bool:
        """Return whether the current word is the whole body of a definition."""
        return not (self.tokens.before(OPENS) or self.tokens.before(COLON))

    def define_part(self, name: str) -> None:
        """Read the expression of a definition; its size counts at each use."""
        before = self.operators, self.leaves, self.edges
        self.parts.setdefault(name, None)
        self.deepest = 0
        self.defining = name
        try:
            part = self.expression()
        finally:
            self.defining = None
        size = _Size(
            self.operators - before[0],
            self.leaves - before[1],
            self.edges - before[2],
            self.deepest,
        )
        self.operators, self.leaves, self.edges = before
        if part is not None:
            self.parts[name] = (part if part.name else replace(part, name=name), size)

    def defined_part(self, name: str) -> Expression | None:
        """Return the expression of a definition, and count its size for this use."""
        found = self.parts[name]
        if found is None:
            return None
        part, size = found
        self.operators += size.operators
        self.leaves += size.leaves
        self.edges += size.edges
        self.deepest = max(self.deepest, self.depth + size.depth)
        limits = self.limits
        for count, most, what in (
            (self.leaves, limits.max_atoms, "atoms"),
            (self.edges, limits.max_edges, "arrows"),
            (self.operators, limits.max_source // _SHORTEST_OPERATOR, "operators"),
        ):
            if count > most:
                self.cursor.stop(f"written out, the request has more than {most} {what}")
        if self.deepest > limits.max_depth:
            message = f"written out, operators are nested more than {limits.max_depth} deep"
            self.cursor.stop(message)
        return part

    def end(self) -> None:
        """Check that nothing follows the expression but a semicolon."""
        if self.tokens.text == ";":
            self.tokens.advance()
        if self.tokens.kind != END:
            self.cursor.wrong(
                f"unexpected {self.cursor.token_words()} after the expression",
                "a request is one expression; join several with all(...) or order(...)",
            )

    def expression(self) -> Expression | None:
        """Expression = [ name ":" ] ( operator "(" ( arguments | graph ) ")" | word ) .

        None if a problem inside it was reported.
        """
        tokens = self.tokens
        name = self.quoted_name() if tokens.kind == STRING else None
        start, word = tokens.start, self.word()
        if tokens.text == ":":
            name = self.checked_name(word, start, name)
            start, word = tokens.start, self.word()
        if tokens.text == "(":
            operator = word if word in ARGUMENTS else self.unknown_operator(word, start)
        elif word == self.defining:
            span = (start, start + len(word))
            message = f"the definition of {quote(word)} names itself"
            raise RuleError(Problem(MALFORMED, message, span, fix="write what it stands for"))
        elif word in self.parts:
            part = self.defined_part(word)
            return part if name is None or part is None else replace(part, name=name)
        else:
            self.no_operator(word, start)
        opened = tokens.start
        self.depth += 1
        self.operators += 1
        if self.depth > self.deepest:
            self.deepest = self.depth
            if self.depth > self.limits.max_depth:
                self.cursor.stop(f"operators are nested more than {self.limits.max_depth} deep")
        tokens.advance()
        if tokens.kind == END:
            self.cursor.never_closed(opened)
        if operator == "graph":
            result = self.graph(start, opened)
        else:
            result = self.arguments(operator, start, opened)
        self.depth -= 1
        return result if name is None or result is None else replace(result, name=name)

    def word(self) -> str:
        """Read the first word of an expression."""
        tokens = self.tokens
        if tokens.kind != WORD:
            self.cursor.wrong(
                f"expected an expression, not {self.cursor.token_words()}",
                "write such as atom(...)",
            )
        text = tokens.text
        tokens.advance()
        return text

    def quoted_name(self) -> str:
        """Read ``"a name" :`` and return the name."""
        name = self.values.name("a name")
        if self.tokens.text != ":":
            self.cursor.wrong(
                f"expected ':' before {self.cursor.token_words()}", 'write "a name": atom(...)'
            )
        self.tokens.advance()
        return name

    def checked_name(self, word: str, start: int, other: str | None) -> str:
        """Read the ``:`` after `word` and return the word as a name; `other` is an earlier name."""
        if other is not None:
            self.cursor.wrong("an expression has one name", "drop one of the names")
        try:
            name = check_name(word, "a name")
        except ArgumentError as error:
            span = (start, start + len(word))
            raise RuleError(Problem(MALFORMED, error.message, span, fix=error.fix)) from error
        self.tokens.advance()
        if self.tokens.kind == STRING or (self.tokens.kind == WORD and self.tokens.before(COLON)):
            self.cursor.wrong("an expression has one name", "drop one of the names")
        return name

    def no_operator(self, word: str, start: int) -> NoReturn:
        """Raise RuleError for a word that is neither an operator with arguments nor defined."""
        span = (start, start + len(word))
        if word in ARGUMENTS:
            shown = self.cursor.token_words()
            self.cursor.wrong(f"expected '(' before {shown}", f"write {usage(word)}")
        if word in self.values.bundles:
            message = f"{quote(word)} is a bundle, not an expression"
            raise RuleError(Problem(MALFORMED, message, span, fix=f"write atom({word}, ...)"))
        known = [*ARGUMENTS, *self.parts]
        found = nearest(word, known)
        if found is None:
            fix = f"write one of {', '.join(ARGUMENTS)}"
            message = f"unknown operator {quote(word)}"
            raise RuleError(Problem(MALFORMED, message, span, fix=fix))
        if found in self.parts:
            message, fix = f"no expression is named {quote(word)}", f"did you mean {found!r}?"
            raise RuleError(Problem(MALFORMED, message, span, fix=fix))
        fix = f"did you mean {found!r}?"
        self.cursor.report(f"unknown operator {quote(word)}", span, fix)
        self.cursor.wrong(
            f"expected '(' before {self.cursor.token_words()}", f"write {usage(found)}"
        )

    def unknown_operator(self, text: str, start: int) -> str:
        """Report an unknown word; return the operator with which to read its arguments."""
        span = (start, start + len(text))
        if text in self.values.bundles or text in self.parts:
            what = "a bundle, not an expression"
            fix = f"write atom({text}, ...)"
            if text in self.parts:
                what, fix = "an expression and takes no arguments", f"write {text} alone"
            raise RuleError(Problem(MALFORMED, f"{quote(text)} is {what}", span, fix=fix))
        found = nearest(text, ARGUMENTS)
        if found is None:
            fix = f"write one of {', '.join(ARGUMENTS)}"
            message = f"unknown operator {quote(text)}"
            raise RuleError(Problem(MALFORMED, message, span, fix=fix))
        self.cursor.report(f"unknown operator {quote(text)}", span, f"did you mean {found!r}?")
        return found

    def arguments(self, operator: str, start: int, opened: int) -> Expression | None:
        """Arguments = [ argument { "," argument } ] ."""
        tokens = self.tokens
        call = _Call(operator)
        more = tokens.text != ")"
        while more:
            try:
                self.argument(call)
            except RuleError as wrong:
                call.broken = True
                call.unclear = call.unclear or wrong.whole
                self.cursor.keep(wrong.problem)
                self.cursor.skip(commas=wrong.whole)
            more = self.cursor.separator(opened)
        span = (start, tokens.start + 1)
        tokens.advance()
        if not call.children and "of" not in call.given:
            self.count_leaf(span)
        lacking = None if call.unclear else missing_arguments(operator, call.given)
        if lacking is not None:
            self.cursor.report(lacking, span, f"write {usage(operator, call.given)}")
        if lacking is None and not call.broken and not call.unclear:
            try:
                return build(operator, call.given, call.children, span)
            except ArgumentError as error:
                self.cursor.report(
                    error.message, call.spans.get(error.argument or "", span), error.fix
                )
        self.orphans += call.children
        if isinstance(of := call.given.get("of"), Expression):
            self.orphans.append(of)
        return None

    def argument(self, call: _Call) -> None:
        """Argument = [ word "=" ] value ."""
        tokens = self.tokens
        if tokens.kind == KEY:
            name = self.argument_name(call)
        elif call.operator in VARIADIC:
            self.child(call)
            return
        else:
            name = self.argument_place(call)
        call.given[name] = None
        call.spans[name] = (tokens.start, tokens.start + len(tokens.text))
        reads = ARGUMENTS[call.operator][name]
        if reads is Reads.EXPRESSION:
            value = self.expression()
            call.broken = call.broken or value is None
        else:
            value = READERS[reads](self.values, name)
        call.given[name] = value

    def child(self, call: _Call) -> None:
        """Read an expression of `any`, `all` or `order`."""
        child = self.expression()
        if child is None:
            call.broken = True
            return
        call.children.append(child)
        if call.operator == "any" and len(call.children) > self.limits.max_options:
            self.cursor.stop(f"one any has more than {self.limits.max_options} options")

    def argument_name(self, call: _Call) -> str:
        """Read ``name =`` and return the name."""
        tokens = self.tokens
        name = tokens.text
        known = ARGUMENTS[call.operator]
        if name not in known:
            call.unclear = True
            fix = did_you_mean(name, known) if known else "it takes expressions only"
            self.cursor.wrong(f"{call.operator} has no argument {quote(name)}", fix)
        if name in call.given:
            self.cursor.wrong(f"{name} is given twice", "keep the one that is meant")
        call.named = True
        tokens.advance()
        tokens.advance()
        return name

    def argument_place(self, call: _Call) -> str:
        """Return the name of the next positional argument."""
        operator = call.operator
        places = REQUIRED[operator]
        if call.named:
            self.cursor.wrong("an argument without a name follows one with a name", "name it too")
        if call.position == len(places):
            named = [f"{name}=" for name in ARGUMENTS[operator] if name not in places]
            fix = f"name the others: {' '.join(named)}" if named else f"write {usage(operator)}"
            self.cursor.wrong(f"{operator} takes {len(places)} arguments without a name", fix)
        call.position += 1
        return places[call.position - 1]

    def count_leaf(self, span: Span) -> None:
        """Count an expression without children."""
        self.leaves += 1
        if self.leaves > self.limits.max_atoms:
            self.cursor.stop(f"the request has more than {self.limits.max_atoms} atoms", span=span)

    def graph(self, start: int, opened: int) -> Expression | None:
        """Graph = named { "," named } [ ";" [ arrow { "," arrow } ] ] ."""
        tokens = self.tokens
        graph = _Graph()
        more = tokens.text not in (")", ";")
        while more:
            try:
                self.graph_child(graph)
            except RuleError as wrong:
                self.graph_wrong(graph, wrong)
            more = self.cursor.separator(opened, ");")
        if tokens.text == ";":
            tokens.advance()
            more = tokens.text != ")"
            while more:
                try:
                    self.graph_arrow(graph)
                except RuleError as wrong:
                    self.graph_wrong(graph, wrong)
                more = self.cursor.separator(opened)
        span = (start, tokens.start + 1)
        tokens.advance()
        if not graph.children:
            self.count_leaf(span)
        if graph.broken:
            self.orphans += graph.children
            return None
        return Graph(tuple(graph.index_of), tuple(graph.children), tuple(graph.edges), span)

    def graph_wrong(self, graph: _Graph, wrong: RuleError) -> None:
        """Record a problem of a graph and continue after it."""
        graph.broken = True
        self.cursor.keep(wrong.problem)
        self.cursor.skip(commas=wrong.whole)

    def graph_child(self, graph: _Graph) -> None:
        """Named = name ":" expression | word ; a single word is both a definition and its name."""
        tokens = self.tokens
        if tokens.kind not in (WORD, STRING):
            self.cursor.wrong(
                f"expected a name, not {self.cursor.token_words()}",
                "write graph(a: e1, b: e2; a -> b)",
            )
        span = tokens.span
        name = self.values.name("a name")
        if name in graph.index_of:
            graph.broken = True
            self.cursor.report(f"the name {quote(name)} is used twice", span, "rename one")
        graph.index_of.setdefault(name, len(graph.index_of))
        if tokens.text == ":":
            tokens.advance()
            child = self.expression()
        elif name in self.parts:
            child = self.defined_part(name)
        else:
            self.cursor.wrong(
                f"expected ':' before {self.cursor.token_words()}",
                "write graph(a: e1, b: e2; a -> b)",
            )
        if child is None:
            graph.broken = True
        else:
            graph.children.append(child)

    def graph_arrow(self, graph: _Graph) -> None:
        """Arrow = name "->" name [ "gap" "=" gap ] ."""
        tokens = self.tokens
        before = self.graph_end(graph)
        if tokens.text != "->":
            self.cursor.wrong(f"expected '->' before {self.cursor.token_words()}", "write a -> b")
        tokens.advance()
        after = self.graph_end(graph)
        gap: Gap | None = None
        if tokens.kind == KEY:
            if tokens.text != "gap":
                fix = did_you_mean(tokens.text, ("gap",))
                self.cursor.wrong(f"an arrow has no argument {quote(tokens.text)}", fix)
            tokens.advance()
            tokens.advance()
            gap = self.values.gap("gap")
        graph.edges.append(Edge(before, after, gap))
        self.edges += 1
        if self.edges > self.limits.max_edges:
            self.cursor.stop(f"the request has more than {self.limits.max_edges} arrows")

    def graph_end(self, graph: _Graph) -> int:
        """Return the index of the child that an end of an arrow names."""
        tokens = self.tokens
        if tokens.kind == WORD:
            known = graph.index_of.get(tokens.text)
            if known is not None:
                tokens.advance()
                return known
        elif tokens.kind != STRING:
            self.cursor.wrong(f"expected a name, not {self.cursor.token_words()}", "write a -> b")
        span = tokens.span
        name = self.values.name("a name")
        index = graph.index_of.get(name)
        if index is None:
            graph.broken = True
            fix = did_you_mean(name, graph.index_of)
            self.cursor.report(f"no expression of the graph is named {quote(name)}", span, fix)
            return 0
        return index


# Nearly all requests that programs write are ``window(atom(<...>, g, h, lease, work), start,
# end)``. One pattern finds the parts, several times as fast as the parser. It reports no errors:
# the parser reads everything that does not match or has an invalid part, and reports its problems.


def plain_window(text: str, limits: SourceLimits) -> Window | None:
    """Return the same as the parser for an atom in a window; None if the parser must read it."""
    if len(text) > min(_MOST_CHARACTERS, limits.max_source) or limits.max_depth < _DEPTH:
        return None
    found = _PLAIN.fullmatch(text)
    if found is None:
        return None
    _, bundle_text, least, most, lease, work, *times = found.groups()
    bundle, minimum, maximum = _bundle(bundle_text), int(least), int(most)
    if bundle is None or not 1 <= minimum <= MAX_COUNT or not 1 <= maximum <= MAX_COUNT:
        return None
    try:
        lease_ms, work_ms = parse_duration(lease), parse_duration(work, MAX_WORK_MS)
        start, end = _instant(times[0], times[1]), _instant(times[2], times[3])
    except TimeTextError:
        return None
    if work_ms == 0:  # a best-effort session
        return None
    atom = Atom(bundle, minimum, maximum, lease_ms, work_ms, span=found.span(1))
    return Window(start, end, atom, span=(0, len(text)))


@lru_cache(maxsize=1024)
def _bundle(text: str) -> Resources | None:
    bundle = parse_bundle(text, 0)
    return None if isinstance(bundle, list) else bundle


def _instant(plus: str | None, text: str) -> Moment:
    if plus is not None:
        return AfterSubmission(parse_duration(text))
    return Absolute(parse_rfc3339(text)) if "-" in text else Offset(parse_duration(text))
