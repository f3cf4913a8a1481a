"""The `agenda` command: names and one-line helps of its parts, without importing them."""

from __future__ import annotations

import sys

try:
    import click

    from service.cli.terminal.command_group import AgendaGroup, LazyCommand
    from service.cli.terminal.exit_codes import MEANINGS
except KeyboardInterrupt:  # ^C while Python still reads the program
    sys.stderr.write("agenda: stopped before it began\n")
    raise SystemExit(130) from None

#: Name -> where it is and what it does, in the order that help shows.
PARTS = (
    LazyCommand(
        "demo",
        "service.cli.client.demo.command:demo",
        "Serve a cluster on loopback, play a part of a day, show the result.",
    ),
    LazyCommand("rdl", "service.cli.rdl:rdl", "Check requests written in RDL."),
    LazyCommand("plan", "service.cli.plans.plan:plan", "Plan a workload on a cluster."),
    LazyCommand(
        "validate",
        "service.cli.client.plan.validate:validate",
        "Check a whole Plan, of a file or a server, independently of the planner.",
    ),
    LazyCommand(
        "compare", "service.cli.plans.compare:compare", "Plan with several agents, side by side."
    ),
    LazyCommand(
        "optimize",
        "service.cli.plans.optimize:optimize",
        "Make a better Plan; no reservation loses anything.",
    ),
    LazyCommand(
        "plan-diff", "service.cli.plans.plan_diff:plan_diff", "Show what changed between two Plans."
    ),
    LazyCommand(
        "cluster",
        "service.cli.cluster.group:cluster",
        "Check a cluster file, show a server's cluster, ask what another would change.",
    ),
    LazyCommand("lotes", "service.cli.lotes:lotes", "Plan job classes on machines (LoTES)."),
    LazyCommand("import", "service.cli.importing.traces:import_", "Turn traces into workloads."),
    LazyCommand(
        "estimate",
        "service.cli.estimates.estimate:estimate_",
        "Turn finished runs of recurring jobs into requests.",
    ),
    LazyCommand(
        "json-schema",
        "service.cli.schemas:json_schema",
        "Print the JSON Schema of what a command prints with -o json.",
    ),
    LazyCommand("serve", "service.cli.serve:serve", "Run the service."),
    LazyCommand(
        "backup", "service.cli.maintenance:backup", "Write a server's database into a file."
    ),
    LazyCommand(
        "restore", "service.cli.maintenance:restore", "Fill an empty database from a backup."
    ),
    LazyCommand(
        "upgrade",
        "service.cli.maintenance:upgrade",
        "Bring the database of an older version up to date.",
    ),
    LazyCommand(
        "token", "service.cli.token:token", "Create, list and revoke the tokens of a database."
    ),
    LazyCommand(
        "clock",
        "service.cli.clock:clock",
        "Confirm the clock of a server that does not follow it.",
    ),
    LazyCommand(
        "reservations",
        "service.cli.client.reservations.group:reservations",
        "Ask for, follow, change and cancel a server's reservations.",
    ),
    LazyCommand(
        "submit",
        "service.cli.client.reservations.reservations:submit",
        "Ask a server for reservations.",
    ),
    LazyCommand(
        "offers",
        "service.cli.client.reservations.offers:offers",
        "Show what would be accepted instead of a request.",
    ),
    LazyCommand(
        "holds",
        "service.cli.client.reservations.holds:holds",
        "Keep room on a server for up to a minute.",
    ),
    LazyCommand(
        "apps",
        "service.cli.client.applications.apps:apps",
        "Run applications on a server's machines.",
    ),
    LazyCommand(
        "assignments",
        "service.cli.client.applications.assignments:assignments",
        "Show what runs on which machine of a server.",
    ),
    LazyCommand(
        "executor",
        "service.cli.client.executor.command:executor",
        "Run components on this machine for a server.",
    ),
    LazyCommand(
        "sbatch",
        "service.cli.client.slurm.sbatch:sbatch",
        "Reserve nodes and submit a Slurm job in them.",
    ),
    LazyCommand(
        "squeue",
        "service.cli.client.slurm.squeue:squeue",
        "List the Slurm jobs that run or wait under a server.",
    ),
    LazyCommand(
        "sacct",
        "service.cli.client.slurm.sacct:sacct",
        "List which promises Slurm's accounting says were kept.",
    ),
    LazyCommand(
        "dispatch",
        "service.cli.client.applications.dispatch:dispatch",
        "Show and change how a server serves work without a reservation.",
    ),
    LazyCommand(
        "usage", "service.cli.cluster.usage:usage", "Show who holds how much of a server's cluster."
    ),
    LazyCommand(
        "export", "service.cli.client.plan.export:export", "Write a server's whole Plan to a file."
    ),
    LazyCommand(
        "optimizations",
        "service.cli.client.plan.optimizations:optimizations",
        "Look for a better Plan while the server goes on.",
    ),
    LazyCommand(
        "audit",
        "service.cli.client.operations.audit:audit",
        "List who changed what on a server, and when.",
    ),
    LazyCommand(
        "outages",
        "service.cli.client.operations.outages:outages",
        "Take a server's machines away and give them back.",
    ),
    LazyCommand(
        "diag",
        "service.cli.client.operations.diag:diag",
        "Collect what is known of a server into one file.",
    ),
    LazyCommand(
        "watch", "service.cli.client.events.watch:watch", "Print what happens on a server."
    ),
    LazyCommand(
        "webhook",
        "service.cli.client.events.webhooks:webhook",
        "Have a server post what happens to a URL.",
    ),
)


@click.group(
    cls=AgendaGroup,
    parts=PARTS,
    epilog="\b\nExit codes:\n"
    + "\n".join(f"{code:>5}  {meaning}" for code, meaning in MEANINGS.items()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="cluster-agenda", prog_name="agenda")
def main() -> None:
    """Plan the future of a shared cluster.

    Answers go to standard output, progress and messages to standard error.
    """


if __name__ == "__main__":
    main()
