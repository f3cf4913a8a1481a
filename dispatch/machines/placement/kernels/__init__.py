"""Compiled placement: indexes over machines and queues, and the policies, a file a part."""
