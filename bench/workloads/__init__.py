"""Workloads that benches plan: generated, recorded and published."""
