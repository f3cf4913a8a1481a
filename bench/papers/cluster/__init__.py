"""Cluster-level simulation: applications with core and elastic components over one pool."""
