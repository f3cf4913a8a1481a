"""Which examples tests draw: the same for everybody, but for `make soak`, which tells its seed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine, providers

from tests.examples import draw_a_part
from tests.soak import command, run_for, soak

_TESTS = Path(__file__).parent

#: What would make one test draw other examples than its neighbours do.
_OWN_WAYS = re.compile(
    r"derandomize|load_profile|register_profile|settings\([^()]*(?:database|phases)=|@seed"
    r"|default_rng\(\)|Random\(\)|SystemRandom|time_ns\(\)"
    r"|\brandom\.(?:random|randint|randrange|choice|choices|sample|shuffle|uniform)\("
)


def test_examples_are_the_same_in_every_run() -> None:
    """The profile in force draws from the name of a test, keeps nothing, and judges no time."""
    now = settings.default
    assert now is not None
    assert (now.derandomize, now.database, now.deadline) == (True, None, None)


def test_a_failure_is_made_smaller_for_a_bounded_time() -> None:
    """Half a minute and 500 steps at most, and no phase of explanation after that."""
    assert Phase.explain not in settings.get_profile("agenda").phases
    assert (engine.MAX_SHRINKING_SECONDS, engine.MAX_SHRINKS) == (30, 500)


def test_examples_do_not_depend_on_what_is_loaded() -> None:
    """No constant of the product's modules is drawn: a worker loads what its own tests need."""

    @given(st.integers())
    def law(number: int) -> None:
        assert isinstance(number, int)

    law()
    assert len(providers._local_constants) == 0


def test_two_runs_draw_the_same() -> None:
    """One law, asked twice: the same examples, in the same order."""
    drawn: list[int] = []

    @given(st.integers())
    def law(number: int) -> None:
        drawn.append(number)

    law()
    first = drawn.copy()
    drawn.clear()
    law()
    assert drawn == first


@pytest.mark.parametrize(
    ("whole", "is_sweep", "drawn"),
    [(100, False, 25), (40, False, 10), (20, False, 8), (5, False, 5), (100, True, 100)],
)
def test_a_law_draws_a_part_of_its_examples_and_a_sweep_all(
    request: pytest.FixtureRequest, whole: int, is_sweep: bool, drawn: int
) -> None:
    """A quarter, eight at least; and no more than its settings say."""
    found: list[int] = []

    @settings(max_examples=whole)
    @given(st.integers())
    def law(number: int) -> None:
        found.append(number)

    item = pytest.Function.from_parent(request.node.parent, name="law", callobj=law)
    if is_sweep:
        item.add_marker("sweep")
    draw_a_part([item, item, request.node])
    law()
    assert len(found) == drawn


def test_no_test_goes_its_own_way() -> None:
    """Settings that the profile fixes, and generators without a seed, are in no test file."""
    soaks = [
        _TESTS / "soak.py",
        _TESTS / "end_to_end" / "kills" / "test_kill_mixed.py",
        _TESTS / "end_to_end" / "kills" / "test_executor_kills.py",
        _TESTS / "end_to_end" / "kills" / "test_slurm_day.py",
        _TESTS / "end_to_end" / "kills" / "test_slurm_faults.py",
        _TESTS / "end_to_end" / "kills" / "test_storm.py",
        _TESTS / "planner" / "adaptation" / "test_mixed_histories.py",
        _TESTS / "planner" / "plan" / "slots" / "test_slot_histories.py",
        _TESTS / "planner" / "plan" / "slots" / "test_slot_refusals.py",
        _TESTS / "planner" / "test_together_on_machines.py",
        _TESTS / "planner" / "test_together_within.py",
        _TESTS / "rdl" / "fuzz_rdl.py",
        _TESTS / "rdl" / "fuzz_sources.py",
    ]
    own = [_TESTS / "conftest.py", *soaks, Path(__file__)]
    found = [
        f"{path.relative_to(_TESTS)}: {match.group()}"
        for path in sorted(_TESTS.rglob("*.py"))
        if path not in own
        for match in _OWN_WAYS.finditer(path.read_text())
    ]
    assert found == []


def test_soak_draws_new_examples_from_the_seed_it_is_given() -> None:
    """The profile of `make soak` is not derandomised, and each round names its seed."""
    profile = settings.get_profile("soak")
    assert (profile.derandomize, profile.database, profile.deadline) == (False, None, None)
    assert {"--hypothesis-profile=soak", "--hypothesis-seed=5"} <= set(command(5, [], 1))


@pytest.mark.parametrize(
    ("codes", "seeds", "code"),
    [
        ([0, 0, 0, 0], [7, 8, 9], 0),  # three rounds of 25 s fill a minute
        ([0, 1, 0], [7, 8], 1),  # the second finds something
        ([0, None], [7, 8], 0),  # time is over in the second
    ],
)
def test_rounds_of_soak(
    codes: list[int | None], seeds: list[int], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each takes the next seed and says so, until one finds something or the time is over."""
    asked: list[int] = []

    def round_of(seconds: float, seed: int) -> int | None:
        assert seconds == 60 - 25 * len(asked)
        asked.append(seed)
        return codes[len(asked) - 1]

    assert soak(1.0, 7, round_of, lambda: 25.0 * len(asked)) == code
    assert asked == seeds
    assert all(f"SEED={seed}" in capsys.readouterr().out for seed in seeds[:1])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("raise SystemExit(3)", 3),
        ("import time; time.sleep(60)", None),
    ],
)
def test_a_round_ends_when_the_time_is_over(text: str, code: int | None) -> None:
    """Its exit code reports what was found; one that is interrupted found nothing."""
    seconds = 60.0 if code is not None else 0.5
    assert run_for(seconds, [sys.executable, "-c", text]) == code
