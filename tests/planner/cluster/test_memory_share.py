"""Memory for bundles that name none: no machine holds fewer of them, and none loses any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup, bundles_per_machine
from planner.files import FileError, cluster_from_json, cluster_to_json
from rdl.resources import CPU, MEMORY, Resources
from rdl.text.formatter import format_expression
from rdl.text.parser import parse

_GIB = 1024


def _cluster(*machines: dict[str, object], share: object = "machines") -> Cluster:
    groups = [
        {"name": f"g{number}", "count": 2, **machine} for number, machine in enumerate(machines)
    ]
    return cluster_from_json(
        {
            "step": "60s",
            "horizon": "1h",
            "machines": groups,
            "promises": {"level": "placed", "memory_per_cpu": share},
        }
    )


def _added(cluster: Cluster, text: str) -> str:
    return format_expression(cluster.memory_shares.complete(parse(text)))


_PLAIN = {"resources": {"cpu": 32, "memory": "128 GiB"}}
_GPU = {"resources": {"cpu": 16, "memory": "256 GiB", "gpu": 8}, "labels": ["gpu"]}
_BARE = {"resources": {"cpu": 8}}


@pytest.mark.parametrize(
    ("machines", "share", "bundle", "expected"),
    [
        ([_PLAIN], "machines", "<1 cpu>", 4 * _GIB),
        ([_PLAIN], "machines", "<500m cpu>", 2 * _GIB),
        ([_PLAIN], "machines", "<1 cpu, 1 GiB memory>", 0),  # it names memory
        ([_PLAIN, _GPU], "machines", "<1 cpu>", 4 * _GIB),  # the least of both
        ([_PLAIN, _GPU], "machines", "<1 cpu, 1 gpu>", 16 * _GIB),  # only there
        ([_PLAIN, _GPU], "machines", "<20 cpu>", 80 * _GIB),
        ([_GPU], "machines", "<1 gpu>", 0),  # no cores
        ([_BARE], "machines", "<1 cpu>", 0),  # no memory at all
        ([_PLAIN, _BARE], "machines", "<1 cpu>", 0),  # the bare ones would hold none
        ([_PLAIN, _BARE], "machines", "<9 cpu>", 36 * _GIB),
        ([_PLAIN], "machines", "<33 cpu>", 0),  # fits no machine
        ([_PLAIN], "2 GiB", "<3 cpu>", 6 * _GIB),
        ([_PLAIN], "64 GiB", "<3 cpu>", 128 * _GIB),  # at most a machine
        ([_PLAIN, _BARE], "2 GiB", "<3 cpu>", 0),
        ([_PLAIN], "none", "<1 cpu>", 0),
    ],
)
def test_a_bundle_gets_the_share_of_its_cores(
    machines: list[dict[str, object]], share: str, bundle: str, expected: int
) -> None:
    """By the machines that could hold it, or by the amount of the file; nothing if it cannot."""
    atom = parse(f"atom({bundle}, 1, 1, 60s, 60s)")
    shares = _cluster(*machines, share=share).memory_shares
    assert shares.share(atom.bundle, None) == expected  # type: ignore[union-attr]


def test_a_label_says_whose_share_counts() -> None:
    """An atom on the GPU machines gets what these have for a core."""
    text = (
        'all(atom(<1 cpu>, 1, 1, 60, 60, on="gpu"), atom(<1 cpu>, 1, 1, 60, 60), void(<1 cpu>, 1))'
    )
    found = _added(_cluster(_PLAIN, _GPU), text)
    assert found.count("16 GiB memory") == found.count(" 4 GiB memory") == 1


def test_what_names_memory_is_left_as_it_is() -> None:
    """The same object comes back, so that no one writes notes of it."""
    expression = parse("window(atom(<1 cpu, 1 GiB memory>, 1, 1, 60, 60), 0, 3600)")
    shares = _cluster(_PLAIN).memory_shares
    assert shares.complete(expression) is expression
    assert shares.notes(expression) == ()


def test_a_change_keeps_what_its_bundles_have() -> None:
    """Smaller machines came since: the bundle that was there stays, another one gets less."""
    before, after = (
        _cluster(_PLAIN),
        _cluster(_PLAIN, {"resources": {"cpu": 32, "memory": "32 GiB"}}),
    )
    written = parse("window(atom(<2 cpu>, 1, 1, 60, 60), 0, 3600)")
    planned = before.memory_shares.complete(written)
    kept = after.memory_shares.keeping(written, planned)
    changed = parse("all(atom(<2 cpu>, 1, 1, 60, 120), atom(<1 cpu>, 1, 1, 60, 60))")
    found = format_expression(kept.complete(changed))
    assert "<2 cpu, 8 GiB memory>" in found
    assert "<1 cpu, 1 GiB memory>" in found


_AMOUNT = st.integers(1, 40)
_GROUP = st.builds(
    lambda name, cpu, memory, gpu, labels: MachineGroup(
        name, 1, Resources.of({CPU: 500 * cpu, MEMORY: 700 * memory, "gpu": gpu}), labels
    ),
    st.uuids().map(str),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(0, 2),
    st.sampled_from([frozenset(), frozenset({"ssd"})]),
)


@given(
    groups=st.lists(_GROUP, min_size=1, max_size=4),
    cpu=_AMOUNT,
    gpu=st.integers(0, 1),
    label=st.sampled_from([None, "ssd"]),
)
def test_no_machine_holds_fewer_bundles(
    groups: list[MachineGroup], cpu: int, gpu: int, label: str | None
) -> None:
    """The law of the default: what was placed without the memory can be placed with it."""
    cluster = Cluster(60_000, 3_600_000, tuple(groups))
    bundle = Resources.of({CPU: 300 * cpu, "gpu": gpu})
    share = cluster.memory_shares.share(bundle, label)
    completed = Resources.of({**bundle, MEMORY: share})
    for group in groups:
        if label is None or label in group.labels:
            before = bundles_per_machine(group.resources, bundle)
            assert bundles_per_machine(group.resources, completed) == before


@pytest.mark.parametrize(("share", "kept"), [("machines", None), ("none", 0), ("2 GiB", 2048)])
def test_the_option_is_read_and_written(share: str, kept: int | None) -> None:
    """The default is left out, as in descriptions from before there was the option."""
    cluster = _cluster(_PLAIN, share=share)
    document = cluster_to_json(cluster)
    assert cluster.memory_per_cpu == kept
    assert document["promises"].get("memory_per_cpu", "machines") == share
    assert cluster_from_json(document) == cluster


@pytest.mark.parametrize("wrong", ["many", "2 parsecs", 0, ""])
def test_a_share_that_is_none_is_refused_where_it_is_written(wrong: object) -> None:
    """With its pointer."""
    with pytest.raises(FileError) as refused:
        _cluster(_PLAIN, share=wrong)
    assert refused.value.problems[0].pointer == "/promises/memory_per_cpu"
