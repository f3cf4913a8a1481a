"""The example day: a Facebook-like day of requests on a cluster of 32 machines, by seed.

What is a published fact and what is ours is distinguished in `facts` and `requests`.
"""

from service.example_day.day import SEED, cluster_text, example_day, write_example_day

__all__ = ["SEED", "cluster_text", "example_day", "write_example_day"]
