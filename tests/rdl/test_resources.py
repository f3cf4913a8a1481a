"""Resources: units, canonical form, exact round trips, clear errors."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.resources import AmountError, Resources, amount_of, canonical_resource
from tests.patience import stopwatch


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"cpu": 4}, {"cpu": 4000}),
        ({"cpu": "500m"}, {"cpu": 500}),
        ({"cpu": 0.5}, {"cpu": 500}),
        ({"vCores": 2, "RAM": "2 GiB"}, {"cpu": 2000, "memory": 2048}),
        ({"memory": 1024}, {"memory": 1024}),
        ({"memory": "1 TiB"}, {"memory": 1048576}),
        ({"memory": "1 B"}, {"memory": 1}),
        ({"gpu": 2}, {"gpu": 2}),
        ({"cpu": 0}, {}),
    ],
)
def test_units_become_whole_amounts(value: dict[str, object], expected: dict[str, int]) -> None:
    """Millicores, MiB and units, with the aliases people write."""
    assert dict(Resources.from_json(value)) == expected


def test_decimal_memory_rounds_up_for_bundles_and_down_for_capacity() -> None:
    """2 GB is 1907.35 MiB: a bundle takes 1908, a machine offers 1907."""
    up = Resources.from_json({"memory": "2 GB"})
    down = Resources.from_json({"memory": "2 GB"}, round_up=False)

    assert up["memory"] == 1908
    assert down["memory"] == 1907


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"cpu": "4 GiB"}, "unknown unit 'GiB' for cpu; write cores (2, 0.5) or 500m"),
        (
            {"memory": "4 cores"},
            "unknown unit 'cores' for memory; write one of B KiB MiB GiB TiB kB KB MB GB TB",
        ),
        ({"gpu": "2 GiB"}, "unknown unit 'GiB' for gpu; it is counted in whole units"),
        ({"cpu": -1}, "an amount of cpu must be zero or more"),
        ({"cpu": True}, "cpu is a number or a string with a unit, not True"),
        ({"cpu": 1, "cores": 2}, "cpu is given twice"),
        ({"cpu": float("nan")}, "an amount of cpu must be zero or more"),
        ({"memory": "lots"}, "cannot read 'lots' as an amount of memory; write 4 or '16 GiB'"),
        ([1], 'amounts are an object such as {"cpu": 4, "memory": "16 GiB"}'),
        ({"memory": 2**41}, "an amount of memory above 1099511627776 is not plausible"),
    ],
)
def test_errors_say_what_would_be_right(value: object, message: str) -> None:
    """Each misuse has one message, compared whole."""
    with pytest.raises(AmountError) as caught:
        Resources.from_json(value)

    assert str(caught.value) == message


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu", "fpga"]), st.integers(0, 2**40), max_size=4
)


@given(amounts)
def test_json_round_trip_is_exact(given_amounts: dict[str, int]) -> None:
    """from_json(to_json(r)) == r, whatever the amounts."""
    resources = Resources.of(given_amounts)

    assert Resources.from_json(resources.to_json()) == resources


@given(amounts, amounts)
def test_equality_is_that_of_amounts(first: dict[str, int], second: dict[str, int]) -> None:
    """Two Resources are equal exactly when they hold the same non-zero amounts."""
    same = {k: v for k, v in first.items() if v} == {k: v for k, v in second.items() if v}

    assert (Resources.of(first) == Resources.of(second)) == same
    if same:
        assert hash(Resources.of(first)) == hash(Resources.of(second))


def test_dominant_share_is_the_largest() -> None:
    """<2 cpu, 64 GiB> of <32 cpu, 128 GiB> is one half, by memory."""
    bundle = Resources.from_json({"cpu": 2, "memory": "64 GiB"})
    machine = Resources.from_json({"cpu": 32, "memory": "128 GiB"})

    assert bundle.dominant_share(machine) == 0.5
    assert Resources.of({"gpu": 1}).dominant_share(machine) == float("inf")


def test_names_are_canonical() -> None:
    """`RAM` is memory, an unknown word stays, a phrase is refused."""
    assert canonical_resource("RAM") == "memory"
    assert canonical_resource("nvidia.com/gpu") == "nvidia.com/gpu"
    with pytest.raises(AmountError, match="is not a resource name"):
        canonical_resource("two words")


def test_amounts_never_round_to_less_than_asked() -> None:
    """A tenth of a millicore is still a millicore for a bundle."""
    assert amount_of("cpu", Decimal("0.0001"), "") == 1
    assert amount_of("cpu", Decimal("0.0001"), "", round_up=False) == 0


@pytest.mark.parametrize("filler", [" ", "9", "a", "1."])
def test_a_long_amount_is_refused_after_one_pass(filler: str) -> None:
    """How long a text is that is no amount changes little of what it costs."""
    with stopwatch() as taken, pytest.raises(AmountError):
        Resources.from_json({"cpu": f"1{filler * 100_000}!"})
    assert taken.seconds < 2
