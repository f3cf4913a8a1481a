"""The distributions of Zoe's workload stay where the journal says that figure 2 has them."""

from __future__ import annotations

from bench.papers.cluster.generator import ZoeWorkload
from bench.papers.zoe_runs import METRICS, PARTS, workload_shape


def test_drawn_workloads_have_the_ranges_of_figure_2() -> None:
    """Seconds to weeks; millicores to 6 cores; MB to tens of GB; elastic parts by group."""
    gap, run, cpu, memory, core, elastic = METRICS
    shape = workload_shape(ZoeWorkload(applications=4_000), 1)
    groups = {group for metric, group in shape if metric == run}
    assert groups == {"B-E", "B-R", "Int"}
    for group in groups:
        assert 24 <= shape[run, group][0] < shape[run, group][-1] <= 22 * 86_400
        assert 0.005 <= shape[cpu, group][0] < shape[cpu, group][-1] <= 6
        assert 4 <= shape[memory, group][0] < shape[memory, group][-1] <= 48 * 1024
        assert (shape[core, group] >= 1).all()
    assert (shape[elastic, "B-R"] == 0).all()
    assert 100 < shape[elastic, "Int"][-1] <= 300 < shape[elastic, "B-E"][-1] <= 5_000
    median, most = PARTS.index(0.5), PARTS.index(0.9)
    assert shape[gap, "all"][most] > 20 * shape[gap, "all"][median]
