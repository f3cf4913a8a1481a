"""Workflows of WfCommons and Alibaba's DAGs: every arrow of the trace, and no other."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.files import cluster_from_json, read_cluster, read_line, read_workload
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_workload
from service.importers.alibaba import AlibabaModel, import_dags
from service.importers.lines import Imported, Slack, TraceError, open_trace
from service.importers.stages import StageModel
from service.importers.wfcommons import WorkflowModel, import_workflows
from tests.service.cli.command_line import agenda

TABLE = "instance,id,name,parents,runtime_s,cores,avg_cpu_pct,memory_bytes,in_bytes,out_bytes"


def imported(text: str, *, merged: bool = False, machines: int = 4) -> Imported:
    """Import one file with slack exactly 1 and steps of 10 s."""
    described = WorkflowModel(machines, merged=merged)
    model = StageModel(described.kinds, 10, slack=Slack(1.0, 1.0))
    files = [("folder/flow.json", io.StringIO(text))]
    return import_workflows(files, described, model, np.random.default_rng(0))


def flow(parents: dict[str, list[str]], **recorded: dict[str, Any]) -> str:
    """Return WfFormat 1.5 of tasks by their parents; 20 s on one core unless recorded otherwise."""
    tasks = [{"name": key, "id": key, "parents": value} for key, value in parents.items()]
    runs = [{"id": key, "runtimeInSeconds": 20.0, **recorded.get(key, {})} for key in parents]
    body = {"specification": {"tasks": tasks}, "execution": {"tasks": runs}}
    return json.dumps({"name": "x", "schemaVersion": "1.5", "workflow": body})


DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


def test_what_a_trace_does_not_say_is_reported() -> None:
    """A task behind itself, one without a run time and one below 0: in, and told."""
    parents = {"a": ["a"], "b": ["a"], "c": []}
    found = imported(
        flow(parents, b={"runtimeInSeconds": -5.0}, c={"runtimeInSeconds": None, "runtime": None})
    )
    assert len(found.lines) == 1
    assert [one.why for one in found.skipped] == [
        "edges of flow: 1 from a task to itself, such as 'a'",
        "run times of flow: 2 of 3 tasks have none or a negative one and count as 1 s",
    ]


def test_files_of_one_name_get_names_that_no_one_has() -> None:
    """A second `a` is not called `a-2` where a file of that name comes too: none is lost."""
    described = WorkflowModel(4)
    model = StageModel(described.kinds, 10, slack=Slack(1.0, 1.0))
    files = [(name, io.StringIO(flow(DIAMOND))) for name in ("a.json", "x/a.json", "a-2.json")]
    found = import_workflows(files, described, model, np.random.default_rng(0))
    assert [line["id"] for line in found.lines] == ["a", "a-2", "a-2-2"]


def test_a_diamond_by_hand() -> None:
    """Four tasks of two steps, three deep: six steps alone and six of slack; the four arrows."""
    (line,) = imported(flow(DIAMOND, b={"coreCount": 3, "memoryInBytes": 2**30})).lines
    window: Any = line["rdl"]
    assert line["id"] == "flow"
    assert (window["window"]["start"], window["window"]["end"]) == (0, 120)
    graph = window["window"]["of"]["graph"]
    assert sorted(map(tuple, graph["edges"])) == [
        ("s0", "s1"), ("s0", "s2"), ("s1", "s3"), ("s2", "s3"),
    ]  # fmt: skip
    assert graph["nodes"]["s1"]["atom"]["bundle"] == {"cpu": 3, "memory": "1 GiB"}
    assert graph["nodes"]["s0"]["atom"] == {
        "bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": 20, "work": 20,
    }  # fmt: skip


def test_stages_are_no_barriers() -> None:
    """Two chains side by side stay apart: no arrow leads from one into the other."""
    (line,) = imported(flow({"a1": [], "b1": [], "a2": ["a1"], "b2": ["b1"]})).lines
    window: Any = line["rdl"]
    assert len(window["window"]["of"]["graph"]["edges"]) == 2


def test_cores_without_a_count_are_what_was_used() -> None:
    """250 % of a core on average takes three; no record at all takes one."""
    (line,) = imported(flow({"a": [], "b": ["a"]}, a={"avgCPU": 250.0})).lines
    nodes = line["rdl"]["window"]["of"]["graph"]["nodes"]  # type: ignore[index]
    assert [nodes[name]["atom"]["bundle"]["cpu"] for name in ("s0", "s1")] == [3, 1]


def wfformat(version: str) -> str:
    """Return the diamond in the shape in which WfCommons publishes a version.

    Up to 1.1 tasks are jobs with names only. From 1.2 to 1.4 they have short ids too, and parents
    are names. In 1.5 parents are ids and names may be shared.
    """
    tasks: list[dict[str, Any]] = []
    runs: list[dict[str, Any]] = []
    keys = {key: f"ID{place:07d}" for place, key in enumerate(DIAMOND, start=1)}
    names = {key: f"{key}_{id_}" for key, id_ in keys.items()}
    for key, parents in DIAMOND.items():
        children = [other for other, needs in DIAMOND.items() if key in needs]
        shared = {"runtimeInSeconds": 20.0, "memoryInBytes": 2**31}
        words = keys if version == "1.5" else names
        task = {
            "name": names[key],
            "parents": [words[one] for one in parents],
            "children": [words[one] for one in children],
        }
        if version == "1.5":
            tasks.append(task | {"name": "step", "id": keys[key]})
            runs.append({"id": keys[key], "coreCount": 1, **shared})
        elif version == "1.4":
            tasks.append(task | {"id": keys[key], "type": "compute", "cores": 1, **shared})
        else:
            task |= {"type": "compute", "runtime": 20.0, "memory": 2 * 2**20, "cores": 1}
            if version < "1.2":
                del task["children"]
            tasks.append(task if version < "1.2" else task | {"id": keys[key]})
    workflow: dict[str, Any] = {"jobs" if version < "1.2" else "tasks": tasks}
    if version == "1.5":
        workflow = {"specification": {"tasks": tasks}, "execution": {"tasks": runs}}
    return json.dumps({"name": "x", "schemaVersion": version, "workflow": workflow})


@pytest.mark.parametrize("version", ["1.0", "1.2", "1.3", "1.4", "1.5"])
def test_every_version_keeps_its_arrows_and_memory(version: str) -> None:
    """The four arrows of the diamond and 2 GiB a task, in the shape of each published version."""
    found = imported(wfformat(version))
    assert found.skipped == ()
    graph: Any = found.lines[0]["rdl"]
    graph = graph["window"]["of"]["graph"]
    assert sorted(map(tuple, graph["edges"])) == [
        ("s0", "s1"), ("s0", "s2"), ("s1", "s3"), ("s2", "s3"),
    ]  # fmt: skip
    assert {str(one["atom"]["bundle"]) for one in graph["nodes"].values()} == {
        "{'cpu': 1, 'memory': '2 GiB'}"
    }


def test_children_alone_are_arrows() -> None:
    """A file that lists children only has the same graph."""
    document = json.loads(wfformat("1.4"))
    for task in document["workflow"]["tasks"]:
        del task["parents"]
    graph: Any = imported(json.dumps(document)).lines[0]["rdl"]
    assert len(graph["window"]["of"]["graph"]["edges"]) == 4


@pytest.mark.parametrize("version", ["1.4", "1.5"])
def test_a_file_of_which_no_parent_is_found_is_an_error(version: str) -> None:
    """Arrows that name nothing of the file are no remark: its order would be lost."""
    document = json.loads(wfformat(version).replace('"parents": ["', '"parents": ["other/'))
    workflow = document["workflow"]
    for task in workflow.get("specification", workflow)["tasks"]:
        del task["children"]
    with pytest.raises(TraceError, match="3 of 4 parents"):
        imported(json.dumps(document))


def test_a_table_holds_many_workflows() -> None:
    """Rows are tasks, parents are ids; workflows come ten minutes apart."""
    text = f"{TABLE}\nx,0,t,,20,,,,,\nx,1,t,0,20,2,,1048576,,\ny,0,t,,35.2,,,,,\n"
    first, second = imported(text).lines
    assert (first["id"], first["submitted"]) == ("x", 0)
    assert (second["id"], second["submitted"]) == ("y", 600)
    atom: Any = second["rdl"]
    assert atom["window"]["of"]["atom"]["lease"] == 36


def test_what_cannot_be_read_says_where() -> None:
    """The file, and what would be right; cycles and unknown parents are reported and cut."""
    for text, says in [
        ("job,task\n", "WfFormat"),
        ("{}", "no object 'workflow'"),
        ('{"workflow": {"tasks": [1]}}', "list of objects"),
        ('{"workflow": {"tasks": [{"runtime": 1}]}}', "neither id nor name"),
        ('{"workflow": {"tasks": [{"id": "a", "runtime": "x"}]}}', "runtime is a number"),
        ('{"workflow": {"tasks": [{"id": "a", "parents": "b"}]}}', "list of ids"),
        ("{", "not JSON"),
        ('{"workflow": {"tasks": [{"id": "a"}, {"id": "a"}]}}', "task 'a' is listed twice"),
        (f"{TABLE}\nx,a,a,,1,1,,,,\nx,a,a,,1,1,,,,\n", "line 3: task 'a' is listed twice"),
    ]:
        with pytest.raises(TraceError, match=says) as caught:
            imported(text)
        assert "flow.json" in str(caught.value)
    cut = imported(flow({"a": ["b"], "b": ["a", "nobody"]}))
    assert len(cut.lines) == 1
    assert "1 from missing tasks, such as 'nobody'" in cut.skipped[0].why
    assert "depend on each other in a cycle" in cut.skipped[1].why


def test_a_task_of_ages_leaves_its_workflow_out() -> None:
    """A run time that no plan could hold (1e300 s) is reported, and writes no line."""
    left = imported(flow({"a": []}, a={"runtimeInSeconds": 1e300}))
    assert (left.lines, len(left.skipped)) == ((), 1)
    assert "runs for over 30 years" in left.skipped[0].why


@st.composite
def dags(draw: st.DrawFn) -> dict[str, list[str]]:
    """Draw up to nine tasks, each behind some of those before it."""
    count = draw(st.integers(1, 9))
    return {
        f"t{i}": [f"t{j}" for j in range(i) if draw(st.booleans())] if i else []
        for i in range(count)
    }


def before_all(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return what must end before each node, directly or not; nodes stand behind their parents."""
    found: dict[str, set[str]] = {}
    for node, parents in edges.items():
        found[node] = set(parents).union(*(found[parent] for parent in parents))
    return found


@settings(max_examples=60, deadline=None)
@given(parents=dags(), merged=st.booleans())
def test_precedence_is_that_of_the_workflow(parents: dict[str, list[str]], merged: bool) -> None:
    """For any graph: what must end before a task is the same in the request, merged or not.

    Tasks are distinguished by their cores where they are not merged, else by the size of the atoms.
    """
    marks = {} if merged else {key: {"coreCount": 1 + i} for i, key in enumerate(parents)}
    (line,) = imported(flow(parents, **marks), merged=merged).lines
    of: Any = line["rdl"]
    of = of["window"]["of"]
    graph = of.get("graph") or {"nodes": {}, "edges": []}
    nodes = graph["nodes"] or {f"s{i}": atom for i, atom in enumerate(of.get("all", [of]))}
    sizes = {name: atom["atom"]["max"] for name, atom in nodes.items()}
    given: dict[str, set[str]] = {name: set() for name in nodes}
    for before, after in graph["edges"]:
        given[after].add(before)
    held = before_all(given)
    wanted = before_all({key: set(value) for key, value in parents.items()})
    weighed = sorted(sum(sizes[b] for b in held[n]) for n in nodes for _ in range(sizes[n]))
    assert weighed == sorted(len(wanted[key]) for key in parents)
    if not merged:
        cores = {name: atom["atom"]["bundle"]["cpu"] for name, atom in nodes.items()}
        order = list(parents)
        for name, needs in held.items():
            mine = {order[cores[need] - 1] for need in needs}
            assert mine == wanted[order[cores[name] - 1]]


@settings(max_examples=40, deadline=None)
@given(parents=dags(), cores=st.integers(1, 24), seconds=st.integers(1, 90))
def test_every_workflow_can_be_planned_alone(
    parents: dict[str, list[str]], cores: int, seconds: int
) -> None:
    """Alone on one machine every workflow meets its deadline, however little fits side by side."""
    recorded = {key: {"coreCount": cores, "runtimeInSeconds": seconds} for key in parents}
    (line,) = imported(flow(parents, **recorded), machines=1).lines
    end = line["rdl"]["window"]["end"]  # type: ignore[index]
    cluster = cluster_from_json(
        {
            "step": "10s",
            "horizon": end,
            "machines": [{"name": "m", "count": 1, "resources": {"cpu": 24, "memory": "128 GiB"}}],
        }
    )
    work = compile_workload([read_line(line, 1)], cluster)
    document = plan_workload(cluster, work, agent_named("earliest"), Limits()).to_json()
    assert not document["refusals"]
    assert validate(document) == []


def test_tasks_shorter_than_a_step_are_reported_with_a_step_that_fits(tmp_path: Path) -> None:
    """A chain of 2 s tasks on steps of a minute: --step 2s is advised, and then nothing is."""
    chain = {f"t{n}": [f"t{n - 1}"] if n else [] for n in range(8)}
    recorded = {key: {"coreCount": 1, "runtimeInSeconds": 2} for key in chain}
    (tmp_path / "one.json").write_text(flow(chain, **recorded))
    out, cluster = tmp_path / "w.jsonl", tmp_path / "c.toml"
    arguments = ["import", "wfcommons", str(tmp_path / "one.json"), "--out", str(out)]

    long = agenda(*arguments, "--step", "60s")
    short = agenda(*arguments, "--step", "2s", "--cluster-out", cluster)

    assert "--step 2s wastes less" in long.stderr
    assert "the deadlines hold on steps of up to 60 s" in long.stderr
    assert short.exit_code == 0
    assert "wastes" not in short.stderr
    assert "deadlines" not in short.stderr


def test_the_command_writes_workload_and_cluster(tmp_path: Path) -> None:
    """Two files become two requests apart, with a cluster whose horizon holds them."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(flow(DIAMOND))
    out, cluster = tmp_path / "w.jsonl", tmp_path / "c.toml"
    files = [str(tmp_path / "one.json"), str(tmp_path / "two.json")]
    arguments = ["import", "wfcommons", *files, "--apart", "1h", "--out", str(out)]
    done = agenda(*arguments, "--cluster-out", cluster)
    assert done.exit_code == 0, done.output
    lines = list(read_workload(out, None))
    assert [(line.id, line.submitted_ms) for line in lines] == [("one", 0), ("two", 3_600_000)]
    described = read_cluster(cluster)
    assert not compile_workload(lines, described).refusals


def test_a_task_of_a_dag_that_is_there_twice_is_reported() -> None:
    """The second row of a task does not take the place of the first in silence."""
    header = "job,tid,parents,instances,start_s,end_s,mean_inst_s,plan_cpu_pct,plan_mem\n"
    rows = "j,1,,2,0,60,60,100,1\nj,1,,9,0,60,60,100,1\n"
    described = AlibabaModel(4, 24, 128, "t")
    model = StageModel(described.kinds, 10, slack=Slack(1.0, 1.0))
    found = import_dags(io.StringIO(header + rows), described, model, np.random.default_rng(0))
    assert [one.why for one in found.skipped] == ["task 1 of j is listed twice"]
    rdl: Any = found.lines[0]["rdl"]
    assert rdl["window"]["of"]["atom"]["max"] == 2


def test_alibaba_dags_takes_no_other_file(tmp_path: Path) -> None:
    """The batch tasks of 2017 are distinguished by their header; a DAG file gives graphs."""
    batch, dag = tmp_path / "batch.csv", tmp_path / "dag.csv"
    batch.write_text("create_s,end_s,job,task,instances,status,cpu_pct,mem\n")
    header = "job,tid,parents,instances,start_s,end_s,mean_inst_s,plan_cpu_pct,plan_mem"
    dag.write_text(f"{header}\nj,1,,8,0,60,60,50,0.4\nj,2,1,5,0,60,60,50,0.4\n")
    done = agenda("import", "alibaba-dags", batch)
    assert done.exit_code == 1
    assert "column parents" in done.output
    done = agenda("import", "alibaba-dags", dag)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["rdl"]["window"]["of"]["graph"]["edges"] == [["s0", "s1"]]


@pytest.mark.traces
@pytest.mark.parametrize("merged", [False, True])
def test_real_workflows_are_planned(traces: Path, merged: bool) -> None:
    """Measured workflows compile, have their recorded number of arrows, and are planned validly."""
    table = traces / "wfinstances" / "tasks_dev.csv.gz"
    described = WorkflowModel(machines=40, apart_s=60, merged=merged)
    model = StageModel(described.kinds, 10)
    generator = np.random.default_rng(0)
    files = [(table.name, open_trace(str(table)))]
    found = import_workflows(files, described, model, generator, limit=25)
    if not merged:
        rows = list(csv.DictReader(open_trace(str(table))))
        for line in found.lines:
            mine = [row for row in rows if row["instance"] == line["id"]]
            graph: Any = line["rdl"]
            graph = graph["window"]["of"].get("graph", {"edges": []})
            assert len(graph["edges"]) == sum(len(row["parents"].split()) for row in mine)
    cluster = cluster_from_json(
        {
            "step": "10s",
            "horizon": -(-found.end_s // 10) * 10,
            "machines": [{"name": "m", "count": 40, "resources": {"cpu": 24, "memory": "128 GiB"}}],
        }
    )
    lines = [read_line(line, number) for number, line in enumerate(found.lines, 1)]
    work = compile_workload(lines, cluster)
    assert not work.refusals
    document = plan_workload(cluster, work, agent_named("gree-l"), Limits()).to_json()
    assert validate(document) == []
    assert len(document["reservations"]) >= 20
