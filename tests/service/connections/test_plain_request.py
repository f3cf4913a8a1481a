"""PlainRequest: what gunicorn's request may not take from its peer, and settings as data."""

from __future__ import annotations

import pytest
from gunicorn.config import Config
from gunicorn.http import get_parser
from gunicorn.http.message import Request

from service.connections.client_socket import PlainRequest, fix_settings

PEER = ("127.0.0.1", 9)
ASKED = b"GET /v1/plan HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\n\r\n"


@pytest.mark.parametrize(("kind", "scheme"), [(Request, "https"), (PlainRequest, "http")])
def test_no_peer_names_the_scheme(kind: type[Request], scheme: str) -> None:
    """Gunicorn believes who is on this machine; the service believes no one."""
    parser = get_parser(Config(), iter([ASKED]), PEER)
    parser.mesg_class = kind

    assert next(parser).scheme == scheme


def test_settings_keep_their_values_as_attributes() -> None:
    """Each is what the method told before, those that a property makes of several too."""
    settings = Config()
    settings.set("keepalive", 75)
    before = {name: getattr(settings, name) for name in (*settings.settings, "address", "is_ssl")}
    fix_settings(settings)

    assert settings.__dict__["keepalive"] == 75
    assert {name: getattr(settings, name) for name in before} == before
