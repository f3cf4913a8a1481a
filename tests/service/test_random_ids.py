"""RandomIds: hexadecimal text, never twice."""

from __future__ import annotations

import re

from service.random_ids import RandomIds


def test_ids_have_their_size_and_differ() -> None:
    """Those of several stores, one after the other."""
    ids = RandomIds(10)
    found = [ids.new() for _ in range(2_000)]

    assert all(re.fullmatch("[0-9a-f]{20}", one) for one in found)
    assert len(set(found)) == len(found)


def test_a_forked_process_begins_again() -> None:
    """What its parent has asked for is the parent's."""
    ids = RandomIds(8)
    ids.new()
    left = {piece.hex() for piece in ids._pieces}
    ids._process = -1

    assert ids.new() not in left
