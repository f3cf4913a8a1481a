"""RDL text to expressions: recursive descent, one function a rule, every problem at once.

After a mistake the parser goes on at the next comma or closing bracket, so one reading finds the
mistakes of all arguments. Nothing is built from an argument that could not be read.
"""

from __future__ import annotations

from typing import Any

from rdl.errors import (
    MALFORMED,
    Problem,
    RdlError,
    TooManyProblemsError,
    did_you_mean,
    nearest,
    quoted,
)
from rdl.expressions import Edge, Expression, Gap, Graph, Span
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.operators import (
    ARGUMENTS,
    REQUIRED,
    VARIADIC,
    ArgumentError,
    Reads,
    build,
    missing_arguments,
    usage,
)
from rdl.resources import Resources
from rdl.text.cursor import Cursor, RuleError
from rdl.text.plain_text import plain_window
from rdl.text.tokenizer import END, KEY, STRING, WORD
from rdl.text.values import READERS, ValueReader


def parse(text: str, limits: SourceLimits = DEFAULT_LIMITS) -> Expression:
    """Return the expression that `text` says.

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
    """The arguments of one operator, while they are read."""

    __slots__ = ("broken", "children", "given", "named", "operator", "position", "spans", "unclear")

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.given: dict[str, Any] = {}
        self.spans: dict[str, Span] = {}
        self.children: list[Expression] = []
        self.position = 0
        self.named = False
        self.broken = False
        # Something given could not be told apart, so nothing is said to be missing.
        self.unclear = False


class _Graph:
    """The children and arrows of one graph, while they are read."""

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
        # Read whole, inside something that could not be.
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
        """Definition = word "=" bundle ";" ."""
        tokens = self.tokens
        name = tokens.text
        if name in self.values.bundles:
            self.cursor.report(f"bundle {quoted(name)} is defined twice", tokens.span, "rename one")
        tokens.advance()
        tokens.advance()
        try:
            self.values.bundles[name] = self.values.bundle(name)
            if tokens.text != ";":
                self.cursor.wrong(
                    f"expected ';' before {self.cursor.shown()}", "end a definition with ';'"
                )
        except RuleError as wrong:
            self.cursor.keep(wrong.problem)
            self.values.bundles.setdefault(name, Resources())
            while tokens.text != ";":
                if tokens.kind == END:
                    raise TooManyProblemsError from wrong
                tokens.advance()
        tokens.advance()

    def end(self) -> None:
        """Check that nothing follows the expression but a semicolon."""
        if self.tokens.text == ";":
            self.tokens.advance()
        if self.tokens.kind != END:
            self.cursor.wrong(
                f"unexpected {self.cursor.shown()} after the expression",
                "a request is one expression; join several with all(...) or order(...)",
            )

    def expression(self) -> Expression | None:
        """Expression = operator "(" ( arguments | graph ) ")" .

        None where a problem inside it was reported.
        """
        tokens = self.tokens
        if tokens.kind != WORD:
            self.cursor.wrong(
                f"expected an expression, not {self.cursor.shown()}", "write such as atom(...)"
            )
        start = tokens.start
        operator = tokens.text if tokens.text in ARGUMENTS else self.unknown_operator()
        tokens.advance()
        if tokens.text != "(":
            self.cursor.wrong(
                f"expected '(' before {self.cursor.shown()}", f"write {usage(operator)}"
            )
        opened = tokens.start
        self.depth += 1
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
        return result

    def unknown_operator(self) -> str:
        """Report an unknown word, and return the operator to read its arguments as."""
        text, span = self.tokens.text, self.tokens.span
        if text in self.values.bundles:
            self.cursor.wrong(
                f"{quoted(text)} is a bundle, not an expression", f"write atom({text}, ...)"
            )
        found = nearest(text, ARGUMENTS)
        if found is None:
            self.cursor.wrong(
                f"unknown operator {quoted(text)}", f"write one of {', '.join(ARGUMENTS)}"
            )
        self.cursor.report(f"unknown operator {quoted(text)}", span, f"did you mean {found!r}?")
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
            self.cursor.report(lacking, span, f"write {usage(operator)}")
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
        """Step over ``name =`` and return the name."""
        tokens = self.tokens
        name = tokens.text
        known = ARGUMENTS[call.operator]
        if name not in known:
            call.unclear = True
            fix = did_you_mean(name, known) if known else "it takes expressions only"
            self.cursor.wrong(f"{call.operator} has no argument {quoted(name)}", fix)
        if name in call.given:
            self.cursor.wrong(f"{name} is given twice", "keep the one that is meant")
        call.named = True
        tokens.advance()
        tokens.advance()
        return name

    def argument_place(self, call: _Call) -> str:
        """Return the name of the next argument that has none."""
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
        """Keep a problem of a graph and go on behind it."""
        graph.broken = True
        self.cursor.keep(wrong.problem)
        self.cursor.skip(commas=wrong.whole)

    def graph_child(self, graph: _Graph) -> None:
        """Named = name ":" expression ."""
        tokens = self.tokens
        if tokens.kind not in (WORD, STRING):
            self.cursor.wrong(
                f"expected a name, not {self.cursor.shown()}", "write graph(a: e1, b: e2; a -> b)"
            )
        span = tokens.span
        name = self.values.name("a name")
        if name in graph.index_of:
            graph.broken = True
            self.cursor.report(f"the name {quoted(name)} is used twice", span, "rename one")
        graph.index_of.setdefault(name, len(graph.index_of))
        if tokens.text != ":":
            self.cursor.wrong(
                f"expected ':' before {self.cursor.shown()}", "write graph(a: e1, b: e2; a -> b)"
            )
        tokens.advance()
        child = self.expression()
        if child is None:
            graph.broken = True
        else:
            graph.children.append(child)

    def graph_arrow(self, graph: _Graph) -> None:
        """Arrow = name "->" name [ "gap" "=" gap ] ."""
        tokens = self.tokens
        before = self.graph_end(graph)
        if tokens.text != "->":
            self.cursor.wrong(f"expected '->' before {self.cursor.shown()}", "write a -> b")
        tokens.advance()
        after = self.graph_end(graph)
        gap: Gap | None = None
        if tokens.kind == KEY:
            if tokens.text != "gap":
                fix = did_you_mean(tokens.text, ("gap",))
                self.cursor.wrong(f"an arrow has no argument {quoted(tokens.text)}", fix)
            tokens.advance()
            tokens.advance()
            gap = self.values.gap("gap")
        graph.edges.append(Edge(before, after, gap))
        self.edges += 1
        if self.edges > self.limits.max_edges:
            self.cursor.stop(f"the request has more than {self.limits.max_edges} arrows")

    def graph_end(self, graph: _Graph) -> int:
        """Return the child that an end of an arrow names."""
        tokens = self.tokens
        if tokens.kind == WORD:
            known = graph.index_of.get(tokens.text)
            if known is not None:
                tokens.advance()
                return known
        elif tokens.kind != STRING:
            self.cursor.wrong(f"expected a name, not {self.cursor.shown()}", "write a -> b")
        span = tokens.span
        name = self.values.name("a name")
        index = graph.index_of.get(name)
        if index is None:
            graph.broken = True
            fix = did_you_mean(name, graph.index_of)
            self.cursor.report(f"no expression of the graph is named {quoted(name)}", span, fix)
            return 0
        return index
