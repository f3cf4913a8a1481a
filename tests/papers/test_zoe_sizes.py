"""Zoe's D5.2, 10.3 to 10.5: all-core work, sizes by malleable, preemption by every size."""

from __future__ import annotations

from bench.papers.cluster.generator import ZoeWorkload
from bench.papers.zoe import zoe_design, zoe_options
from bench.papers.zoe_runs import ZoeOptions, ZoeTable, run_seed, table_of


def _run(name: str, applications: int = 300) -> ZoeTable:
    """Run an experiment on fewer applications than the papers', more than the cluster can do."""
    interactive = zoe_options(name).workload.interactive
    workload = ZoeWorkload(applications=applications, interactive=interactive, load=1.5)
    options = ZoeOptions(workload, (1,))
    design = zoe_design(name)
    return table_of(design, options, [run_seed(design, options, 1)])


def test_where_every_component_is_core_flexible_is_rigid() -> None:
    """Every figure of every order is the very same (table 10.4a), and there is a line."""
    table = _run("zoe-inelastic")
    for order, preemptive in (("fifo", False), ("sjf", True), ("srpt", True), ("hrrn", False)):
        rigid = table.row("rigid", order, preemptive=preemptive)
        flexible = table.row("flexible", order, preemptive=preemptive)
        assert rigid.figures == flexible.figures
        assert rigid.figures["all turnaround mean_s"].mean > rigid.figures["all alone mean_s"].mean
    assert {figure.mean for figure in table.ratios.values()} == {1.0}


def test_sizes_of_more_dimensions_pay_by_malleable_too() -> None:
    """Mean turnaround by work is below that by time alone, shortest first and by what is left."""
    ratios = _run("zoe-malleable-sizes", 1_000).ratios
    assert len(ratios) == 8
    for size, plain in (("sjf-2d", "sjf"), ("sjf-3d", "sjf"), ("srpt-2d1", "srpt")):
        assert ratios[f"malleable mean turnaround, {size} / {plain}"].mean < 1.0


def test_with_preemption_interactive_work_waits_less_by_every_size() -> None:
    """Under each of the eleven orders."""
    table = _run("zoe-preemption-sizes")
    waits = [figure.mean for key, figure in table.ratios.items() if "queuing" in key]
    assert len(waits) == 11
    assert min(waits) > 1.0
