"""Pages over HTTP: shells, assets, and the headers that keep both safe and cheap."""

from __future__ import annotations

import re

import pytest

from service.web.shell import CONTENT_POLICY, PAGES, Asset, Assets, packaged_assets
from tests.service.conftest import Service


def test_the_root_leads_to_the_page(service: Service) -> None:
    """`/` answers a browser with the way to `/ui/`, and so does `/ui`."""
    answer = service.client.get("/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/ui/")
    assert service.client.get("/ui").status_code == 308


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_shell_holds_no_script_and_no_foreign_address(service: Service, page: object) -> None:
    """Each page loads files of this server only; nothing in it runs by itself; any query goes."""
    for path in page.paths:  # type: ignore[attr-defined]
        answer = service.client.get(path.replace("{id}", "a") + "?from=1&what=2")
        html = answer.get_data(as_text=True)
        assert answer.status_code == 200
        assert answer.headers["Content-Security-Policy"] == CONTENT_POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-cache"
        assert re.findall(r"<script[^>]*>[^<]", html) == []
        assert re.findall(r"<style|\son\w+=|style=", html) == []
        addresses = re.findall(r'(?:href|src)="([^"]*)"', html)
        assert all(one.startswith(("/ui/", "#")) for one in addresses)


def test_every_asset_is_there_and_kept_for_a_year(service: Service) -> None:
    """What a shell names is served with its type, for ever, packed where that is smaller."""
    html = service.client.get("/ui/").get_data(as_text=True)
    for address in set(re.findall(r'"(/ui/static/[^"]+)"', html)):
        answer = service.client.get(address, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200, address
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.content_type.startswith(("text/javascript", "text/css", "image/svg+xml"))
    large = service.client.get(
        packaged_assets().address("style/base.css"), headers={"Accept-Encoding": "gzip"}
    )
    assert large.headers["Content-Encoding"] == "gzip"


@pytest.mark.parametrize("name", ["core/none.js", "core/..%2Fshell.py", "templates/plan.html"])
def test_nothing_else_is_served(service: Service, name: str) -> None:
    """A file that is no asset is 404."""
    digest = packaged_assets().digest
    assert service.client.get(f"/ui/static/{digest}/{name}").status_code == 404


def test_a_page_of_another_version_gets_what_there_is_and_keeps_it_not(service: Service) -> None:
    """Under an address of other content a file is served, and asked for again next time."""
    answer = service.client.get("/ui/static/000000000000/core/dom.js")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-cache")


def test_all_that_a_module_imports_is_requested_at_once() -> None:
    """Imports are followed over folders, once each; another content is another address."""
    found = {
        "a/one.js": 'import { x } from "./two.js";\nimport "../b/three.js";\n',
        "a/two.js": 'export { y } from "../b/three.js";\n',
        "b/three.js": "export const y = 1;\n",
    }
    made = Assets({name: Asset(text.encode(), "text/javascript") for name, text in found.items()})
    assert made.modules_of("a/one.js") == ["a/one.js", "a/two.js", "b/three.js"]
    other = Assets({name: Asset(b"", "text/javascript") for name in found})
    assert made.digest != other.digest


def test_every_import_names_a_module_that_there_is() -> None:
    """No page and no module that one loads on demand imports what is not there."""
    assets = packaged_assets()
    for page in PAGES:
        assets.modules_of(f"pages/{page.name}.js")
    assets.modules_of("reservation/view.js")


def test_a_caller_is_reported_who_it_is(service: Service) -> None:
    """Without tokens anyone who calls is an admin of all tenants."""
    body = service.client.get("/v1/user").get_json()
    assert body["now_at"] == "2026-01-05T00:00:00Z"
    assert (body["role"], body["all_tenants"], body["auth"]) == ("admin", True, "none")
