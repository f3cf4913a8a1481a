"""Zoe's comparisons on machines: what differs from the one pool, and what does not."""

from __future__ import annotations

from bench.papers.cluster.generator import ZoeWorkload
from bench.papers.cluster.machine_fit import Fit
from bench.papers.zoe import zoe_design
from bench.papers.zoe_runs import ZoeOptions, run_seed, table_of


def test_on_machines_less_is_allocated_than_in_one_pool() -> None:
    """By FIFO, each scheduler, 300 applications on ten machines; nothing else is lost or gained."""
    workload = ZoeWorkload(applications=300, interactive=0.0, load=1.5, machines=10)
    options = ZoeOptions(workload, (1,))
    design = zoe_design("zoe-machines")
    table = table_of(design, options, [run_seed(design, options, 1)])
    used = {
        (row.variant.scheduler, row.variant.fit): row.figures["cpu allocation"].mean
        for row in table.rows
        if row.variant.ordering == "fifo"
    }
    for name in ("rigid", "flexible", "malleable"):
        assert max(used[name, fit] for fit in Fit) < used[name, None] <= 1.0
    assert {row.variant.setting for row in table.rows} == {
        "",
        "machines, best fit",
        "machines, worst fit",
    }
    assert set(table.ratios) == set(table.claims)
