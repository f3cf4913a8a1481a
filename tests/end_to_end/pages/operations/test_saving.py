"""What pages show as files: the words, shapes and pictures that are seen."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager
from xml.etree import ElementTree as ET

import pytest

from tests.end_to_end.pages.browser import Visit

pytestmark = pytest.mark.browser

Visiting = Callable[..., AbstractContextManager[Visit]]

#: Pages, how their files are called, words that stand in them, and what is drawn.
PAGES = [
    ("/ui/promises", "promises", ["Error budget", "Share kept", "degraded"], r"url\(#pattern"),
    ("/ui/machines", "machines", ["standard", "gpu"], r"clipPath"),
    ("/ui/applications", "applications", ["crawl", "train"], r"<rect "),
    ("/ui/applications/crawl", "applications-crawl", ["driver", "worker"], r"<rect "),
    ("/ui/ask", "ask", ["Request in RDL", "The Plan", "At most"], r"<rect "),
    ("/ui/reservations/ml-wide", "reservations-ml-wide", ["Held, and its window"], r"<svg "),
]


@pytest.mark.parametrize(("path", "name", "words", "drawn"), PAGES)
def test_what_is_seen_is_saved(
    look: Visiting, path: str, name: str, words: list[str], drawn: str
) -> None:
    """As SVG with words and shapes and without its buttons; as PNG twice as fine."""
    with look() as it:
        page = it.open(path)
        files = {}
        for kind in ("SVG", "PNG"):
            with page.expect_download() as saved:
                page.locator("footer").get_by_role("button", name=kind).click()
            assert saved.value.suggested_filename == f"{name}.{kind.lower()}"
            files[kind] = saved.value.path().read_bytes()
        text = files["SVG"].decode()
        whole = ET.fromstring(text)
        for word in words:
            assert word in text
        assert re.search(drawn, text)
        assert "As table" not in text
        assert "#000" not in text, "a hatching whose colour was not found"
        width, height = struct.unpack(">II", files["PNG"][16:24])
        assert (width, height) == tuple(2 * int(whole.attrib[one]) for one in ("width", "height"))
