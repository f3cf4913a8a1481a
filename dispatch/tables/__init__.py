"""Dispatch tables of LoTES: job classes of a cluster, from files or from live work."""
