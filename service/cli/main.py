"""The `agenda` command: names and one-line helps of its parts, without importing them."""

from __future__ import annotations

import sys

try:
    import click

    from service.cli.command_group import AgendaGroup, Part
except KeyboardInterrupt:  # ^C while Python still reads the program
    sys.stderr.write("agenda: stopped before it began\n")
    raise SystemExit(130) from None

#: Name -> where it is and what it does, in the order that help shows.
PARTS = (
    Part(
        "demo",
        "service.cli.client.demo:demo",
        "Serve the example day on loopback and show the result.",
    ),
    Part("rdl", "service.cli.rdl:rdl", "Check requests written in RDL."),
    Part("plan", "service.cli.plans.plan:plan", "Plan a workload on a cluster."),
    Part("validate", "service.cli.plans.validate:validate", "Re-check a whole Plan from nothing."),
    Part("compare", "service.cli.plans.compare:compare", "Plan with several agents, side by side."),
    Part(
        "optimize",
        "service.cli.plans.optimize:optimize",
        "Make a better Plan; no promise is lowered.",
    ),
    Part(
        "plan-diff", "service.cli.plans.plan_diff:plan_diff", "Say what changed between two Plans."
    ),
    Part("lotes", "service.cli.lotes:lotes", "Plan job classes on machines: LoTES."),
    Part(
        "simulate", "service.cli.experiments.simulate:simulate", "Run an experiment of the papers."
    ),
    Part("import", "service.cli.importing.traces:import_", "Turn traces into workloads."),
    Part("serve", "service.cli.serve:serve", "Run the service."),
    Part("submit", "service.cli.client.reservations:submit", "Ask a server for reservations."),
    Part("list", "service.cli.client.reservations:list_", "List a server's reservations."),
    Part("show", "service.cli.client.reservations:show", "Show one reservation of a server."),
    Part("offers", "service.cli.client.offers:offers", "Say what would be accepted instead."),
    Part("cancel", "service.cli.client.reservations:cancel", "Cancel a reservation of a server."),
    Part("apps", "service.cli.client.apps:apps", "Run applications on a server's machines."),
    Part(
        "assignments",
        "service.cli.client.assignments:assignments",
        "Say what runs on which machine of a server.",
    ),
    Part(
        "optimizations",
        "service.cli.client.optimizations:optimizations",
        "Make a server's Plan better, beside its work.",
    ),
    Part(
        "outages", "service.cli.client.outages:outages", "Take a server's machines away and back."
    ),
)


@click.group(
    cls=AgendaGroup,
    parts=PARTS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="cluster-agenda", prog_name="agenda")
def main() -> None:
    """Plan the future of a shared cluster.

    Exit codes: 0 done, 1 error, 2 usage, 3 refused (submit, offers; plan --strict), 4 stopped with
    nothing written, 130 stopped before it began. Only the answer goes to standard output; progress
    and messages go to standard error.
    """


if __name__ == "__main__":
    main()
