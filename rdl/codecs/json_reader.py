"""The JSON reader: checks every field, and reports every problem with its pointer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn, TypeVar

from rdl.codecs.json_values import (
    READERS,
    escape,
    kind_of,
    read_amount,
    read_gap,
    read_name,
    read_weight,
)
from rdl.errors import MALFORMED, Problem, TooManyProblemsError, did_you_mean, quote
from rdl.expressions import Edge, Expression, Gap, Graph
from rdl.limits import MOST_PROBLEMS, SourceLimits
from rdl.operators import (
    ARGUMENTS,
    MAX_RESOURCES,
    VARIADIC,
    ArgumentError,
    Reads,
    build,
    check_bundle,
    missing_arguments,
)
from rdl.read_error import ReadError
from rdl.resources import Resources

_T = TypeVar("_T")

#: Key that is allowed next to any operator.
NAME: Final = "name"


class JsonReader:
    """Reads one JSON value, and collects problems.

    Attributes
    ----------
    problems
        In document order.
    orphans
        Complete expressions inside unreadable ones, with their pointers.
    """

    def __init__(self, limits: SourceLimits) -> None:
        self.problems: list[Problem] = []
        self.orphans: list[tuple[Expression, str]] = []
        self._limits = limits
        self._depth = 0
        self._leaves = 0
        self._edges = 0

    def expression(self, value: object, pointer: str) -> Expression | None:
        """Return the expression of an object, or None if a problem was reported.

        Raises
        ------
        StoppedError
            If a limit is exceeded, which is then the last problem.
        """
        if not isinstance(value, Mapping):
            fix = 'write an object such as {"atom": {...}}'
            self._report(pointer, f"an expression is an object, not {kind_of(value)}", fix)
            return None
        name = None
        if NAME in value:
            name = self._check(read_name, value[NAME], f"{pointer}/{NAME}")
            value = {key: raw for key, raw in value.items() if key != NAME}
        operator = self._operator(value, pointer)
        if operator is None:
            return None
        self._depth += 1
        if self._depth > self._limits.max_depth:
            self._stop(pointer, f"operators are nested more than {self._limits.max_depth} deep")
        inside = f"{pointer}/{operator}"
        if operator in VARIADIC:
            result = self._variadic(operator, value, pointer)
        elif not self._is_one_key(operator, value, pointer):
            result = None
        elif operator == "graph":
            result = self._graph(value["graph"], inside)
        else:
            result = self._named_arguments(operator, value[operator], inside)
        self._depth -= 1
        return result if name is None or result is None else replace(result, name=name)

    def _operator(self, value: Mapping[Any, Any], pointer: str) -> str | None:
        """Return the operator that an object names; its other keys are checked elsewhere."""
        found = [key for key in value if key in ARGUMENTS]
        if len(found) > 1:
            names = " and ".join(found)
            fix = "write one operator in each object; all or order join several"
            self._report(pointer, f"one object names {names}", fix)
            return None
        if found:
            return str(found[0])
        for key in value:
            fix = did_you_mean(str(key), ARGUMENTS)
            self._report(f"{pointer}/{escape(key)}", f"unknown operator {quote(str(key))}", fix)
            return None
        self._report(pointer, "the object is empty", f"write one of {', '.join(ARGUMENTS)}")
        return None

    def _is_one_key(self, operator: str, value: Mapping[Any, Any], pointer: str) -> bool:
        """Return whether an operator is the only key of its object; report all others."""
        for key in value:
            if key != operator:
                where = f"{pointer}/{escape(key)}"
                message = f"unknown key {quote(str(key))} alongside {operator}"
                fix = f"{operator} stands alone; its keys go inside it"
                self._report(where, message, fix)
        return len(value) == 1

    def _named_arguments(self, operator: str, body: object, pointer: str) -> Expression | None:
        """Read ``{"min": 1, ...}``, the value of an operator with named arguments."""
        if not isinstance(body, Mapping):
            keys = ", ".join(ARGUMENTS[operator])
            self._report(
                pointer, f"{operator} is an object, not {kind_of(body)}", f"its keys are {keys}"
            )
            return None
        given = self._arguments(operator, body, pointer)
        if "of" not in ARGUMENTS[operator]:
            self._count_leaf(pointer)
        return self._built(operator, given, [], pointer)

    def _variadic(self, operator: str, value: Mapping[Any, Any], pointer: str) -> Expression | None:
        """Read ``{"any": [...], "prefer": [...]}``."""
        body = value[operator]
        inside = f"{pointer}/{operator}"
        children: list[Expression | None] = []
        if not isinstance(body, list | tuple):
            self._report(inside, f"{operator} is a list, not {kind_of(body)}", "write [e1, e2]")
            children.append(None)
        else:
            if operator == "any" and len(body) > self._limits.max_options:
                self._stop(inside, f"one any has more than {self._limits.max_options} options")
            for index, child in enumerate(body):
                children.append(self.expression(child, f"{inside}/{index}"))
        options = {key: raw for key, raw in value.items() if key != operator}
        given = self._arguments(operator, options, pointer)
        if not children:
            self._count_leaf(pointer)
        return self._built(operator, given, children, pointer)

    def _built(
        self,
        operator: str,
        given: dict[str, Any] | None,
        children: list[Expression | None],
        pointer: str,
    ) -> Expression | None:
        good = [child for child in children if child is not None]
        missing = None if given is None else missing_arguments(operator, given)
        if missing is not None:
            self._report(pointer, missing, f"its keys are {', '.join(ARGUMENTS[operator])}")
        elif given is not None and len(good) == len(children) and None not in given.values():
            try:
                return build(operator, given, good, None)
            except ArgumentError as error:
                where = f"{pointer}/{error.argument}" if error.argument else pointer
                self._report(where, error.message, error.fix)
        found = {f"{operator}/{index}": child for index, child in enumerate(children)}
        self._leave(found if given is None else found | {"of": given.get("of")}, pointer)
        return None

    def _leave(self, children: Mapping[str, Expression | None], pointer: str) -> None:
        """Keep the children of an expression that cannot be built."""
        for place, child in children.items():
            if child is not None:
                self.orphans.append((child, f"{pointer}/{place}"))

    def _arguments(
        self, operator: str, body: Mapping[Any, Any], pointer: str
    ) -> dict[str, Any] | None:
        """Return the arguments, with None for unreadable ones; only None after an unknown key.

        An unknown key is mostly a misspelt one, so missing keys are not reported then.
        """
        known = ARGUMENTS[operator]
        given: dict[str, Any] = {}
        clear = True
        for key, raw in body.items():
            reads = known.get(key) if isinstance(key, str) else None
            if reads is None:
                fix = did_you_mean(str(key), known) if known else f"{operator} stands alone"
                where = f"{pointer}/{escape(key)}"
                self._report(where, f"{operator} has no key {quote(str(key))}", fix)
                clear = False
            else:
                given[key] = self._value(reads, raw, f"{pointer}/{key}")
        return given if clear else None

    def _value(self, reads: Reads, raw: object, pointer: str) -> Any:
        match reads:
            case Reads.EXPRESSION:
                return self.expression(raw, pointer)
            case Reads.BUNDLE:
                return self._bundle(raw, pointer)
            case Reads.WEIGHTS:
                return self._weights(raw, pointer)
            case _:
                return self._check(READERS[reads], raw, pointer)

    def _check(self, read: Callable[[_T], Any], raw: _T, pointer: str) -> Any:
        """Return `read(raw)`, or None after reporting why it failed."""
        try:
            return read(raw)
        except ReadError as error:
            self._report(pointer, error.message, error.fix)
        return None

    def _bundle(self, raw: object, pointer: str) -> Resources | None:
        if not isinstance(raw, Mapping):
            fix = 'write such as {"cpu": 4, "memory": "16 GiB"}'
            self._report(pointer, f"a bundle is an object, not {kind_of(raw)}", fix)
            return None
        if len(raw) > MAX_RESOURCES:
            self._report(pointer, f"more than {MAX_RESOURCES} resources in one bundle")
            return None
        amounts: dict[str, int] = {}
        broken = False
        for key, value in raw.items():
            where = f"{pointer}/{escape(key)}"
            read = self._check(read_amount, (key, value), where)
            if read is None:
                broken = True
            elif read[0] in amounts:
                broken = True
                self._report(where, f"{read[0]} is given twice", "add the amounts up")
            else:
                amounts[read[0]] = read[1]
        if broken:
            return None
        bundle: Resources | None = self._check(check_bundle, Resources.of(amounts), pointer)
        return bundle

    def _weights(self, raw: object, pointer: str) -> tuple[float, ...] | None:
        if not isinstance(raw, list | tuple):
            self._report(pointer, f"prefer is a list, not {kind_of(raw)}", "write such as [1, 0.5]")
            return None
        if len(raw) > self._limits.max_options:
            self._stop(pointer, f"prefer has more than {self._limits.max_options} values")
        weights = [
            self._check(read_weight, value, f"{pointer}/{index}") for index, value in enumerate(raw)
        ]
        return None if None in weights else tuple(weights)

    def _graph(self, body: object, pointer: str) -> Expression | None:
        """Read ``{"nodes": {"a": ...}, "edges": [["a", "b", {"gap": 300}]]}``."""
        if not isinstance(body, Mapping):
            self._report(
                pointer, f"graph is an object, not {kind_of(body)}", "its keys are nodes, edges"
            )
            return None
        before = len(self.problems)
        for key in body:
            if key not in ("nodes", "edges"):
                fix = did_you_mean(str(key), ("nodes", "edges"))
                where = f"{pointer}/{escape(key)}"
                self._report(where, f"graph has no key {quote(str(key))}", fix)
        children = self._graph_children(body.get("nodes"), f"{pointer}/nodes")
        edges = self._graph_edges(body.get("edges", []), children, f"{pointer}/edges")
        if not children:
            self._count_leaf(pointer)
        good = tuple(child for child in children.values() if child is not None)
        if len(self.problems) > before:
            named = {escape(name): child for name, child in children.items()}
            self._leave(named, f"{pointer}/nodes")
            return None
        return Graph(tuple(children), good, tuple(edges))

    def _graph_children(self, raw: object, pointer: str) -> dict[str, Expression | None]:
        children: dict[str, Expression | None] = {}
        if not isinstance(raw, Mapping):
            fix = 'write such as {"a": {"atom": {...}}}'
            self._report(pointer, f"nodes is an object, not {kind_of(raw)}", fix)
            return children
        for key, child in raw.items():
            where = f"{pointer}/{escape(key)}"
            name = self._check(read_name, key, where)
            children[str(key) if name is None else name] = self.expression(child, where)
        return children

    def _graph_edges(
        self, raw: object, children: dict[str, Expression | None], pointer: str
    ) -> list[Edge]:
        if not isinstance(raw, list | tuple):
            self._report(pointer, f"edges is a list, not {kind_of(raw)}", 'write [["a", "b"]]')
            return []
        self._edges += len(raw)
        if self._edges > self._limits.max_edges:
            self._stop(pointer, f"the request has more than {self._limits.max_edges} arrows")
        index_of = {name: index for index, name in enumerate(children)}
        edges = []
        for index, entry in enumerate(raw):
            edge = self._edge(entry, index_of, f"{pointer}/{index}")
            if edge is not None:
                edges.append(edge)
        return edges

    def _edge(self, raw: object, index_of: dict[str, int], pointer: str) -> Edge | None:
        if not isinstance(raw, list | tuple) or len(raw) not in (2, 3):
            fix = 'write ["a", "b"] or ["a", "b", {"gap": 300}]'
            self._report(pointer, "an arrow is a list of two names and an optional object", fix)
            return None
        ends = []
        for place, name in enumerate(raw[:2]):
            if isinstance(name, str) and name in index_of:
                ends.append(index_of[name])
                continue
            shown = quote(name) if isinstance(name, str) else kind_of(name)
            fix = did_you_mean(shown.strip("'"), index_of)
            message = f"no expression of the graph is named {shown}"
            self._report(f"{pointer}/{place}", message, fix)
        gap = self._edge_gap(raw[2], f"{pointer}/2") if len(raw) == 3 else None
        return Edge(ends[0], ends[1], gap) if len(ends) == 2 else None

    def _edge_gap(self, raw: object, pointer: str) -> Gap | None:
        if not isinstance(raw, Mapping) or any(key != "gap" for key in raw):
            self._report(pointer, "an arrow carries a gap only", 'write such as {"gap": 300}')
            return None
        if not raw:
            return None
        gap: Gap | None = self._check(read_gap, raw["gap"], f"{pointer}/gap")
        return gap

    def _report(self, pointer: str, message: str, fix: str | None = None) -> None:
        self.problems.append(Problem(MALFORMED, message, pointer=pointer, fix=fix))
        if len(self.problems) >= MOST_PROBLEMS:
            raise TooManyProblemsError

    def _stop(self, pointer: str, message: str) -> NoReturn:
        self._report(pointer, message)
        raise TooManyProblemsError

    def _count_leaf(self, pointer: str) -> None:
        self._leaves += 1
        if self._leaves > self._limits.max_atoms:
            self._stop(pointer, f"the request has more than {self._limits.max_atoms} atoms")
