"""YARN's bodies as XML: elements are members, an element that repeats is an array, text is text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias
from xml.parsers import expat
from xml.sax.saxutils import escape

from service.yarn.faults import YarnFault

#: What a body says, in XML or in JSON.
Value: TypeAlias = "str | dict[str, Any]"

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'

#: A body has six levels; a deeper one is none.
_DEEPEST: Final = 20


class _Reader:
    """Builds the value of a document as the parser goes through it."""

    def __init__(self) -> None:
        self.root = ""
        self.value: Value = ""
        self._open: list[tuple[str, dict[str, Any], list[str]]] = []

    def start(self, name: str, _attributes: Mapping[str, str]) -> None:
        if len(self._open) >= _DEEPEST:
            raise YarnFault("the XML is nested too deeply")
        self.root = self.root or name
        self._open.append((name, {}, []))

    def text(self, text: str) -> None:
        self._open[-1][2].append(text)

    def end(self, _name: str) -> None:
        name, members, texts = self._open.pop()
        said = "".join(texts).strip()
        if members and said:
            raise YarnFault(f"{name} holds text beside its elements: {said[:80]!r}")
        value: Value = members or said
        if not self._open:
            self.value = value
            return
        outer = self._open[-1][1]
        if name not in outer:
            outer[name] = value
        elif isinstance(outer[name], list):
            outer[name].append(value)
        else:
            outer[name] = [outer[name], value]


def read_xml(raw: bytes, root: str) -> Value:
    """Return what a document says; its root element is `root`.

    Nothing that a document type declares is read: entities could name files of this host, or grow
    without end.

    Raises
    ------
    YarnFault
        400 for what is no XML, has another root, or has a document type.
    """
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=None)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        parser.Parse(raw, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise YarnFault(f"the body is not XML: {error}") from error
    if reader.root != root:
        raise YarnFault(f"the root element is {reader.root[:80]!r}, not {root!r}")
    return reader.value


def _refuse_document_type(*_declared: object) -> None:
    raise YarnFault("a document type declaration is not read; leave <!DOCTYPE ...> out")


def write_xml(root: str, value: Mapping[str, Any]) -> bytes:
    """Return a document; members that are None are left out, arrays are repeated elements."""
    return (_HEAD + "".join(_elements(root, value))).encode()


def _elements(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _elements(name, one)
    elif isinstance(value, Mapping):
        inside = "".join(text for key, one in value.items() for text in _elements(key, one))
        yield f"<{name}>{inside}</{name}>" if inside else f"<{name}/>"
    elif value is not None:
        yield f"<{name}>{escape(str(value))}</{name}>"
