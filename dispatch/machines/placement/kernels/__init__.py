"""Compiled placement: indexes over machines and queues, and the policies, one file each."""
