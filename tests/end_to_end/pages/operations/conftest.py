"""One guarded site on which everything has happened; another one for tests that change things."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest
from playwright.sync_api import Browser

from tests.end_to_end.pages.browser import Visit, visiting
from tests.end_to_end.pages.busy import busy_site
from tests.end_to_end.pages.site import Site, served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES

Visiting = Callable[..., AbstractContextManager[Visit]]


@pytest.fixture(scope="session")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the busy cluster behind tokens; tests leave it as it is."""
    with busy_site(tmp_path_factory.mktemp("busy"), auth="token") as site:
        yield site


@pytest.fixture
def look(browser: Browser, busy: Site) -> Visiting:
    """Return a function that visits it, as operator where no one else is named."""

    def visited(walker: str | None = "operator", **more: object) -> AbstractContextManager[Visit]:
        return visiting(browser, busy, walker=walker, **more)  # type: ignore[arg-type]

    return visited


@pytest.fixture(scope="session")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return such a cluster of which tests may change what is theirs."""
    with busy_site(tmp_path_factory.mktemp("changing"), auth="token") as site:
        yield site


@pytest.fixture
def change(browser: Browser, changing: Site) -> Visiting:
    """Return a function that visits the site that may be changed."""
    return partial(visiting, browser, changing)


@pytest.fixture(scope="session")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return ten machines with one application, which has grown, and with a dispatch table."""
    with served_site(tmp_path_factory.mktemp("grown"), TEN_MACHINES, auth="token") as site:
        policy = site.call("GET", "/v1/dispatch/policy")
        site.call("PUT", "/v1/dispatch/policy", policy | {"tables": True})
        driver = {"name": "driver", "count": 1, "core": True, "resources": {"cpu": 1}}
        worker = {"name": "worker", "count": 3, "core": False, "grow": 2, "resources": {"cpu": 1}}
        application = {"name": "crawl", "size": "10m", "components": [driver, worker]}
        body = {"id": "crawl", "tenant": "ads", "application": application}
        site.call("POST", "/v1/applications", body)
        for _ in range(4):
            site.runtime.dispatcher.tick()
            site.clock.advance(20)
        yield site
