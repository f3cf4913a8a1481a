"""One process of the demo, which ends with it however that ends: ``part PARENT server|executor``.

A demo that is killed cannot end what it has started.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from service.cli.client.demo.serving import serve_day
from service.host.processes import end_with_parent


def main(arguments: Sequence[str]) -> None:
    """Run the part of the demo that the arguments name, until the demo ends."""
    parent, kind, *rest = arguments
    end_with_parent(int(parent))
    if kind == "server":
        serve_day(*rest)
    else:
        from service.cli.client.executor.command import executor

        executor.main(rest, prog_name="agenda executor")


if __name__ == "__main__":
    main(sys.argv[1:])
