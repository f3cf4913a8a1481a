"""Readers and writers of cluster, workload, plan and job-class files."""

from planner.files.class_file import JobClass, classes_from_json, read_classes
from planner.files.cluster_file import (
    cluster_from_json,
    dispatch_from_json,
    read_cluster,
    read_cluster_document,
)
from planner.files.cluster_writer import cluster_to_json, dispatch_to_json
from planner.files.errors import FileError, FileProblem
from planner.files.plan_document import PlanDocument, parse_plan, read_plan, write_plan
from planner.files.workload_file import WorkloadLine, read_line, read_workload

__all__ = [
    "FileError",
    "FileProblem",
    "JobClass",
    "PlanDocument",
    "WorkloadLine",
    "classes_from_json",
    "cluster_from_json",
    "cluster_to_json",
    "dispatch_from_json",
    "dispatch_to_json",
    "parse_plan",
    "read_classes",
    "read_cluster",
    "read_cluster_document",
    "read_line",
    "read_plan",
    "read_workload",
    "write_plan",
]
