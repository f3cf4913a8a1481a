"""What Slurm says of a held job is what is reserved, or refused by the name of its option."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.backends.slurm.control.job_demand import (
    JobDemand,
    JobDemandError,
    demand_of,
    fields_of,
)

#: As Slurm 22.05 writes it, with what stays the same for all left out.
PLAIN = (
    "JobId=4 JobName=wrap JobState=PENDING Reason=JobHeldUser Dependency=(null) TimeLimit=01:30:00 "
    "TimeMin=N/A StartTime=Unknown EndTime=Unknown Deadline=N/A Partition=main ReqNodeList=(null) "
    "ExcNodeList=(null) NodeList= NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* "
    "TRES=cpu=1,mem=100M,node=1,billing=1 Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* "
    "MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0 Features=(null) OverSubscribe=OK "
    "Contiguous=0 Licenses=(null) Network=(null)"
)


def said(**changes: str) -> JobDemand:
    """Return the demand of a job of which Slurm says something else."""
    (fields,) = fields_of(PLAIN)
    return demand_of(fields | changes)


@pytest.mark.parametrize(
    ("changes", "demand"),
    [
        ({}, JobDemand(1, 1, 100, limit_s=5400)),
        ({"TimeLimit": "UNLIMITED"}, JobDemand(1, 1, 100)),
        ({"TimeLimit": "1-00:00:05"}, JobDemand(1, 1, 100, limit_s=86_405)),
        (
            {"NumNodes": "2-2", "NumCPUs": "8", "MinCPUsNode": "4"},
            JobDemand(2, 4, 400, limit_s=5400),
        ),
        ({"NumNodes": "3", "NumCPUs": "10"}, JobDemand(3, 4, 400, limit_s=5400)),
        ({"NumNodes": "1-4", "NumCPUs": "2"}, JobDemand(1, 2, 200, limit_s=5400)),
        ({"MinCPUsNode": "3"}, JobDemand(1, 3, 300, limit_s=5400)),
        ({"MinMemoryNode": "1.50G", "MinMemoryCPU": ""}, JobDemand(1, 1, 1536, limit_s=5400)),
        ({"Features": "a100"}, JobDemand(1, 1, 100, label="a100", limit_s=5400)),
        ({"OverSubscribe": "NO"}, JobDemand(1, 1, 100, whole=True, limit_s=5400)),
        (
            {"MinMemoryNode": "0", "MinMemoryCPU": ""},
            JobDemand(1, 1, whole=True, limit_s=5400),
        ),
        ({"TresPerNode": "gres:gpu:2"}, JobDemand(1, 1, 100, 2, limit_s=5400)),
        ({"TresPerNode": "gres/gpu=2"}, JobDemand(1, 1, 100, 2, limit_s=5400)),
        ({"TresPerNode": "gres:gpu"}, JobDemand(1, 1, 100, 1, limit_s=5400)),
        (
            {"TresPerJob": "gres:gpu:3", "NumNodes": "2", "NumCPUs": "2"},
            JobDemand(2, 1, 100, 2, limit_s=5400),
        ),
        (
            {"TresPerTask": "gres:gpu:2", "NumNodes": "2", "NumCPUs": "8", "NumTasks": "8"},
            JobDemand(2, 4, 400, 8, limit_s=5400),
        ),
        (
            {"TresPerNode": "gres:gpu:2", "CpusPerTres": "gres:gpu:4", "MinMemoryCPU": "100M",
             "MemPerTres": "gres:gpu:8192"},
            JobDemand(1, 8, 16384, 2, limit_s=5400),
        ),
        ({"TresPerNode": "gres:gpu:a100:2"},
         JobDemand(1, 1, 100, 2, label="gpu-a100", limit_s=5400)),
        ({"TresPerNode": "gres/gpu:a100=2"},
         JobDemand(1, 1, 100, 2, label="gpu-a100", limit_s=5400)),
        ({"TresPerNode": "gres:gpu:a100"},
         JobDemand(1, 1, 100, 1, label="gpu-a100", limit_s=5400)),
        ({"StartTime": "1764442800"}, JobDemand(1, 1, 100, begin_s=1764442800, limit_s=5400)),
        ({"Dependency": "afterok:7(unfulfilled),afterany:8_*(unfulfilled)"},
         JobDemand(1, 1, 100, after=(7, 8), limit_s=5400)),
        ({"ArrayTaskId": "0-3", "ArrayJobId": "4"},
         JobDemand(1, 1, 100, is_array=True, tasks=4, throttle=4, limit_s=5400)),
        ({"ArrayTaskId": "0-9:3,20%2", "ArrayTaskThrottle": "2"},
         JobDemand(1, 1, 100, is_array=True, tasks=5, throttle=2, limit_s=5400)),
        ({"ArrayTaskId": "0"}, JobDemand(1, 1, 100, is_array=True, limit_s=5400)),
        ({"Account": "all", "QOS": "high"},
         JobDemand(1, 1, 100, account="all", qos="high", limit_s=5400)),
    ],
)  # fmt: skip
def test_what_slurm_says_is_what_is_reserved(changes: dict[str, str], demand: JobDemand) -> None:
    """Nodes, and CPUs, memory and GPUs of each; site defaults are in it."""
    assert said(**changes) == replace(demand, partition="main")


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"Licenses": "matlab:3|ansys:1"}, "--licenses"),
        ({"Licenses": "matlab@flex:1"}, "--licenses"),
        ({"Dependency": "singleton(unfulfilled)"}, "--dependency=singleton"),
        ({"Dependency": "after:1(unfulfilled)"}, "--dependency=after:1"),
        ({"Dependency": "afterok:1(unfulfilled)?afterok:2(unfulfilled)"}, "--dependency"),
        ({"ReqNodeList": "n1"}, "--nodelist"),
        ({"ExcNodeList": "n1"}, "--exclude"),
        ({"Contiguous": "1"}, "--contiguous"),
        ({"MinTmpDiskNode": "100G"}, "--tmp"),
        ({"CoreSpec": "1"}, "--core-spec"),
        ({"TimeMin": "00:01:00"}, "--time-min"),
        ({"Deadline": "2026-11-29T18:00:00"}, "--deadline"),
        ({"ArrayTaskId": "0-3,..."}, "--array"),
        ({"Priority": "5"}, "--priority"),
        ({"TresPerNode": "gres:gpu:a100:1,gres:gpu:v100:1"}, "gpu-a100 and gpu-v100"),
        ({"TresPerNode": "gres:gpu:a100:1", "Features": "fat"}, "fat and gpu-a100"),
        ({"Switches": "1@00:05:00"}, "--switches"),
        ({"StartTime": "2026-11-29T18:00:00"}, "--begin"),
        ({"Features": "fat&thin"}, "--constraint=fat&thin"),
        ({"Features": "[rack1|rack2]"}, "--constraint="),
        ({"OverSubscribe": "YES"}, "--oversubscribe"),
        ({"OverSubscribe": "USER"}, "--exclusive=user"),
        ({"ReqB:S:C:T": "0:0:2:*"}, "sockets, cores and threads"),
        ({"NtasksPerN:B:S:C": "0:0:1:*"}, "--ntasks-per-socket"),
        ({"TresPerNode": "gres:gpu:2,gres:fpga:1"}, "fpga:1"),
        ({"TresPerSocket": "gres:gpu:1"}, "--gpus-per-socket"),
        ({"Reservation": "maint"}, "--reservation"),
    ],
)
def test_what_no_reservation_has_is_refused_by_name(changes: dict[str, str], option: str) -> None:
    """In sbatch's words."""
    with pytest.raises(JobDemandError) as error:
        said(**changes)
    assert option in str(error.value)


def test_all_that_is_wrong_is_said_together() -> None:
    """So that one try is enough."""
    with pytest.raises(JobDemandError, match=r"--exclude.*; --licenses"):
        said(Licenses="a|b", ExcNodeList="n1")


def test_licenses_are_names_and_counts() -> None:
    """Of the whole job; one where no count is written."""
    assert said(Licenses="matlab:3,ansys").licenses == (("matlab", 3), ("ansys", 1))
    assert said(Licenses="(null)").licenses == ()


def test_a_job_of_several_components_has_several_lines() -> None:
    """Each is a job for Slurm."""
    assert len(fields_of(f"{PLAIN}\n{PLAIN}\n")) == 2
