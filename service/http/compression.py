"""gzip compression of large answers, for clients that accept it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from service.response import Response

#: Smaller bodies are sent uncompressed: the gzip header would cost more than is saved.
LEAST_BYTES: Final = 10_000

#: The same for modules and styles, which browsers cache: they are compressed once for many readers.
LEAST_ASSET_BYTES: Final = 500
_ASSETS: Final = ("text/css", "text/javascript", "text/html")

#: The fastest level: on columns of numbers it takes a third of the default level's time, for 10 %
#: more bytes.
_LEVEL: Final = 1

#: Window bits that make zlib write a gzip stream.
_GZIP: Final = 31


def compress_response(response: Response, accepted: str) -> Response:
    """Return a response for a client that accepts these encodings.

    Compression makes its ETag a weak one, because the bytes differ; If-Match and If-None-Match
    accept weak tags.

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
    """Return whether an Accept-Encoding accepts gzip; ``q=0`` rejects it."""
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
