"""The frame of every page: links, live state, theme, keys, policy."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from service.web.pages import PAGES

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("page", [page.name for page in PAGES if page.listed])
def test_each_page_opens_live(visit: Any, page: str) -> None:
    """Every page of the links opens, hears the server, and keeps its policy."""
    path = next(one.paths[0] for one in PAGES if one.name == page)
    with visit() as it:
        shown = it.open(path, "#live[data-state=live]")
        expect(shown.locator("h1")).to_be_visible()
        expect(shown.locator("nav a[aria-current=page]")).to_have_count(1)
