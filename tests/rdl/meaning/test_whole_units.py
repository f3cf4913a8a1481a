"""Questions about amounts that become others: parts of whole units, memory without a unit."""

from __future__ import annotations

import pytest

from rdl.meaning.questions import questions


@pytest.mark.parametrize(
    ("bundle", "asked"),
    [
        ("<0.5 gpu>", ["0.5 gpu"]),
        ("<1 cpu, 2.7 gpu>", ["2.7 gpu"]),
        ("<1 cpu, 64 memory>", ["64 memory"]),
        ("<0.5 cpu, 1.5 GiB memory, 2 gpu, 2.0 fpga>", []),
        ("<500m cpu, 64 MiB memory>", []),
    ],
)
def test_amounts_that_become_others_are_asked_about(bundle: str, asked: list[str]) -> None:
    """Each question marks the amount."""
    text = f"atom({bundle}, 1, 1, 1h, 1h)"
    found = [text[one.span[0] : one.span[1]] for one in questions(text) if one.span is not None]
    assert found == asked


def test_amounts_in_json_are_asked_about_too() -> None:
    """By pointer."""
    bundle = {"cpu": 0.5, "gpu": 0.5, "memory": 64, "fpga": 2}
    atom = {"atom": {"bundle": bundle, "min": 1, "max": 1, "lease": 1, "work": 1}}
    assert {one.pointer for one in questions(atom)} == {"/atom/bundle/gpu", "/atom/bundle/memory"}
