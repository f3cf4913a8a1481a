"""Readers and writers of cluster, workload, plan and job-class files."""

from planner.files.cluster_file import cluster_from_json, cluster_to_json, read_cluster
from planner.files.errors import FileError, FileProblem

__all__ = ["FileError", "FileProblem", "cluster_from_json", "cluster_to_json", "read_cluster"]
