"""Files of every kind are read in every encoding that editors and shells write."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest

from agenda.connection import token_in
from dispatch.backends.slurm.control.settings import read_settings
from planner.files import FileProblem, read_cluster, read_workload
from service.cli.workload_input import lines_in
from service.importers.histories import read_history
from tests.service.cli.command_line import agenda

_SWF = "; MaxProcs: 16\n1 600 0 60 2 -1 -1 2 120 -1 1 1 1 1 1 1 -1 -1\n"
_SACCT = "JobID|JobName|User|Start|End|AllocCPUS|State\n" + "".join(
    f"{day}|etl|ada|2026-11-{day}T02:05:00|2026-11-{day}T02:45:00|4|COMPLETED\n"
    for day in range(10, 20)
)
_WORKFLOW = json.dumps({"workflow": {"tasks": [{"id": "a", "runtimeInSeconds": 5}]}})
_YARN = json.dumps(
    {
        "reservation-definition": {
            "arrival": 1_700_000_000_000,
            "deadline": 1_700_000_600_000,
            "reservation-requests": {
                "reservation-request-interpreter": 0,
                "reservation-request": {
                    "duration": 60_000,
                    "num-containers": 2,
                    "min-concurrency": 1,
                    "capability": {"memory": 1024, "vCores": 1},
                },
            },
        }
    }
)
_TABLE = "instance,id,parents,runtime_s,cores,avg_cpu_pct,memory_bytes\nx,0,,20,,,\n"
_DAGS = (
    "job,tid,parents,instances,start_s,end_s,mean_inst_s,plan_cpu_pct,plan_mem\nj,1,,1,0,9,9,50,1\n"
)
_SWIM = "job0\t0\t1\t1000000\t0\t0\n"
_CLUSTER = (
    'step = "60s"\nhorizon = "1d"\n[[machines]]\nname = "m"\ncount = 1\nresources = {cpu = 4}\n'
)
_RDL = "window(atom(<1 cpu>, 1, 1, 5m, 5m), 0, 1h)  # é\n"
_WORKLOAD = json.dumps({"id": "a", "tenant": "é", "rdl": _RDL.split("  ")[0]}, ensure_ascii=False)

#: Arguments of a command; words of `_FILES` become files.
_COMMANDS = [
    ("import", "swf", "log.swf"),
    ("import", "wfcommons", "flow.json"),
    ("import", "wfcommons", "table.csv"),
    ("import", "alibaba-dags", "dags.csv"),
    ("import", "swim", "swim.tsv"),
    ("import", "yarn", "yarn.json"),
    ("rdl", "check", "job.rdl"),
    ("rdl", "format", "job.rdl"),
    ("cluster", "check", "cluster.toml"),
    ("rdl", "check", "job.rdl", "--cluster", "cluster.toml"),
]
_FILES = {
    "log.swf": _SWF, "flow.json": _WORKFLOW, "table.csv": _TABLE, "dags.csv": _DAGS,
    "swim.tsv": _SWIM, "yarn.json": _YARN, "runs.txt": _SACCT, "job.rdl": _RDL,
    "cluster.toml": _CLUSTER, "day.jsonl": _WORKLOAD,
}  # fmt: skip


@pytest.mark.parametrize("words", _COMMANDS, ids=lambda words: " ".join(words[:3]))
def test_a_byte_order_mark_changes_no_answer(tmp_path: Path, words: tuple[str, ...]) -> None:
    """The same output for UTF-8 with and without a mark and for UTF-16."""
    answers = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        folder = tmp_path / encoding
        folder.mkdir()
        for name, text in _FILES.items():
            (folder / name).write_text(text, encoding=encoding)
        done = agenda(*(folder / word if word in _FILES else word for word in words))
        assert done.exit_code == 0, done.output
        answers.append(done.output.replace(str(folder), ""))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_requests_of_a_plan_may_begin_with_a_mark(tmp_path: Path, encoding: str) -> None:
    """A workload by the planner's reader and by the command's, one request as text, a history."""
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text, encoding=encoding)
    cluster = read_cluster(tmp_path / "cluster.toml")
    (line,) = read_workload(tmp_path / "day.jsonl", cluster.origin)
    assert len(read_history(str(tmp_path / "runs.txt"), None, UTC).runs) == 10
    problems: list[FileProblem] = []
    day, job = (tmp_path / "day.jsonl").read_bytes(), (tmp_path / "job.rdl").read_bytes()
    assert list(lines_in("day.jsonl", day, None, problems.append)) == [line]
    (alone,) = lines_in("job.rdl", job, None, problems.append)
    assert (line.tenant, alone.source, problems) == ("é", _RDL, [])


def test_settings_and_tokens_may_begin_with_a_mark(tmp_path: Path) -> None:
    """Settings of a Slurm and a token file, written by an editor that adds a mark."""
    file = tmp_path / "slurm.toml"
    text = 'promised = "p"\nbest_effort = "b"\n[machines]\n"m-0" = "n1"\n'
    file.write_text(text, encoding="utf-8-sig")
    assert read_settings(file).promised == "p"
    file.write_text("secret\n", encoding="utf-8-sig")
    assert token_in(file) == "secret"
