"""One browser and one served day for all tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.pages.browser import Visit, chromium, visiting
from tests.end_to_end.pages.site import Site, example_site


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return Chromium, started once."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the example day at nine; tests leave its reservations as they are."""
    with example_site(tmp_path_factory.mktemp("day"), 9.0) as site:
        yield site


@pytest.fixture(scope="session")
def guarded_day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the same behind tokens; a walker `user` acts for tenant ads."""
    with example_site(tmp_path_factory.mktemp("guarded"), 9.0, auth="token") as site:
        yield site


@pytest.fixture
def visit(browser: Browser, day: Site) -> Callable[..., AbstractContextManager[Visit]]:
    """Return a function that visits the example day: ``with visit(theme="dark") as it``."""
    return partial(visiting, browser, day)
