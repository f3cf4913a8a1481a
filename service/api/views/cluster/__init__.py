"""Calls of the cluster, its machines and outages, and the dispatch policy."""
