"""A definition of a reservation as YARN writes it."""

from __future__ import annotations

from typing import Any


def definition(**changes: object) -> dict[str, Any]:
    """Return a gang for a minute or twice the time for half as many, with changes."""
    capability = {"memory": 1024, "vCores": 1}
    body: dict[str, Any] = {
        "arrival": 1893456000000,
        "deadline": 1893456720000,
        "reservation-name": "res_1",
        "reservation-requests": {
            "reservation-request-interpreter": 0,
            "reservation-request": [
                {
                    "duration": 60000,
                    "num-containers": 220,
                    "min-concurrency": 220,
                    "capability": capability,
                },
                {
                    "duration": 120000,
                    "num-containers": 110,
                    "min-concurrency": 1,
                    "capability": capability,
                },
            ],
        },
    }
    return {**body, **changes}
