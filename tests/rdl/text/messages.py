"""What the parser says of sources that it refuses."""

from __future__ import annotations

import pytest

from rdl.errors import RdlError
from rdl.text.parser import parse


def message_of(source: str) -> str:
    """Return what the parser says of a source that it refuses."""
    with pytest.raises(RdlError) as caught:
        parse(source)
    assert caught.value.code == "malformed"
    return str(caught.value)
