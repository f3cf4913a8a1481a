"""The example day: a Facebook-like day of requests on a cluster of 32 machines, from a seed.

`facts` has the published figures; `requests` has our own assumptions.
"""

from service.example_day.day import (
    SEED,
    cluster_text,
    example_day,
    write_example_day,
    write_nightly,
)

__all__ = ["SEED", "cluster_text", "example_day", "write_example_day", "write_nightly"]
