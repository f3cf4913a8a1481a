"""gzip of large answers, for clients that ask for it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.response import Response

#: Bodies below this many bytes are sent as they are: their head weighs more than what is saved.
LEAST_BYTES: Final = 10_000

#: The same of modules and styles, which browsers keep: they are packed once for many readers.
LEAST_ASSET_BYTES: Final = 500
_ASSETS: Final = ("text/css", "text/javascript", "text/html")

#: The fastest level: on columns of numbers it takes a third of the time of the usual one, for a
#: tenth more bytes.
_LEVEL: Final = 1

#: Window bits that make zlib write a gzip stream.
_GZIP: Final = 31


def compress_response(response: Response, accepted: str) -> Response:
    """Return a response as it is sent to a client that accepts these encodings.

    Its ETag then becomes a weak one, since the bytes are not those it was made for; If-Match and
    If-None-Match take it as it is.

    Parameters
    ----------
    accepted
        The request's Accept-Encoding; empty if there is none.
    """
    if isinstance(response.body, Iterator):
        return response
    payload = response.payload()
    least = LEAST_ASSET_BYTES if response.media.startswith(_ASSETS) else LEAST_BYTES
    if len(payload) < least:
        return replace(response, body=payload)
    headers = {**response.headers, "Vary": "Accept-Encoding"}
    if not accepts_gzip(accepted):
        return replace(response, body=payload, headers=headers)
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    headers["Content-Encoding"] = "gzip"
    if "ETag" in headers:
        headers["ETag"] = f"W/{headers['ETag'].removeprefix('W/')}"
    return replace(response, body=packer.compress(payload) + packer.flush(), headers=headers)


def accepts_gzip(accepted: str) -> bool:
    """Return whether an Accept-Encoding takes gzip; ``q=0`` is a no."""
    weights: dict[str, float] = {}
    for entry in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weights[name] = _weight(parameters)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _weight(parameters: list[str]) -> float:
    for one in parameters:
        if one.startswith("q="):
            try:
                return float(one[2:])
            except ValueError:
                return 0.0
    return 1.0
