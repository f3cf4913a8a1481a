"""The `agenda` command: names and one-line helps of its parts, without importing them."""

from __future__ import annotations

import sys
from typing import Final

try:
    import click

    from service.cli.kit.errors import MEANINGS
    from service.cli.kit.groups import AgendaGroup, LazyCommand
except KeyboardInterrupt:  # ^C while Python still reads the program
    sys.stderr.write("agenda: stopped before it began\n")
    raise SystemExit(130) from None

#: Section of the help -> its commands: name, where it is, what it does.
_SECTIONS: Final = {
    "Try it": (
        (
            "demo",
            "service.cli.demo:demo",
            "Serve a cluster on loopback, play part of a day and show the result.",
        ),
    ),
    "Files": (
        ("rdl", "service.cli.rdl:rdl", "Check requests written in RDL."),
        ("plan", "service.cli.plan:plan", "Plan a workload on a cluster."),
        (
            "validate",
            "service.cli.plan_files:validate",
            "Check a whole Plan, from a file or a server, independently of the planner.",
        ),
        ("compare", "service.cli.compare:compare", "Plan with several agents, side by side."),
        ("size", "service.cli.size:size", "Find how many machines a workload needs."),
        (
            "optimize",
            "service.cli.optimizing:optimize",
            "Compute a better Plan; no reservation loses anything.",
        ),
        (
            "plan-diff",
            "service.cli.plan_files:plan_diff",
            "Show what changed between two Plans.",
        ),
        (
            "cluster",
            "service.cli.cluster:cluster",
            "Check a cluster file, show a server's cluster, or preview a change of it.",
        ),
        ("lotes", "service.cli.lotes:lotes", "Plan job classes on machines (LoTES)."),
        ("import", "service.cli.imports:import_", "Turn traces into workloads."),
        (
            "estimate",
            "service.cli.estimate:estimate_",
            "Turn finished runs of recurring jobs into requests.",
        ),
    ),
    "Reservations of a server": (
        (
            "submit",
            "service.cli.reservations:submit",
            "Submit requests to a server.",
        ),
        (
            "reservations",
            "service.cli.reservations:reservations",
            "Submit, follow, change and cancel reservations.",
        ),
        (
            "offers",
            "service.cli.offers:offers",
            "Show offers: changed requests that would be accepted.",
        ),
        (
            "holds",
            "service.cli.offers:holds",
            "Hold capacity on a server for up to a minute.",
        ),
        ("watch", "service.cli.events:watch", "Print a server's events as they happen."),
        (
            "webhook",
            "service.cli.events:webhook",
            "Post a server's events to a URL.",
        ),
    ),
    "Run work": (
        (
            "run",
            "service.cli.run:run",
            "Reserve for a job of several stages and run them.",
        ),
        (
            "pipelines",
            "service.cli.run:pipelines",
            "Show multi-stage jobs and their runs, or retry a run.",
        ),
        (
            "apps",
            "service.cli.applications:apps",
            "Run applications on a server's machines.",
        ),
        ("logs", "service.cli.run:logs", "Print what applications and jobs write."),
        (
            "assignments",
            "service.cli.applications:assignments",
            "Show which components run on which machines.",
        ),
        (
            "executor",
            "service.cli.executor:executor",
            "Run components on this machine for a server.",
        ),
        (
            "sbatch",
            "service.cli.slurm:sbatch",
            "Reserve nodes and submit a Slurm job in them.",
        ),
        (
            "squeue",
            "service.cli.slurm:squeue",
            "List the Slurm jobs that a server manages.",
        ),
        (
            "sacct",
            "service.cli.slurm:sacct",
            "List which promises Slurm's accounting says were kept.",
        ),
    ),
    "For operators": (
        (
            "status",
            "service.cli.operations:status",
            "Show an overview of a server's cluster.",
        ),
        ("serve", "service.cli.serve:serve", "Run the service."),
        (
            "machines",
            "service.cli.operations:machines",
            "List machines with their promised and used shares.",
        ),
        (
            "outages",
            "service.cli.operations:outages",
            "Add, list and end outages of machines.",
        ),
        (
            "usage",
            "service.cli.usage:usage",
            "Show the reserved capacity of each tenant.",
        ),
        (
            "report",
            "service.cli.usage:report",
            "Report what was promised, used, kept and refused in a month.",
        ),
        (
            "policies",
            "service.cli.policies:policies",
            "Show and change quotas, and show their use.",
        ),
        (
            "dispatch",
            "service.cli.applications:dispatch",
            "Show and change the policy for work without a reservation.",
        ),
        (
            "optimizations",
            "service.cli.optimizing:optimizations",
            "Search for a better Plan while the server runs.",
        ),
        (
            "audit",
            "service.cli.operations:audit",
            "List who changed what on a server, and when.",
        ),
        (
            "export",
            "service.cli.plan_files:export",
            "Write a server's whole Plan to a file.",
        ),
        (
            "diag",
            "service.cli.database:diag",
            "Collect diagnostics of a server into one file.",
        ),
    ),
    "The database of a server": (
        (
            "token",
            "service.cli.database:token",
            "Create, list and revoke the tokens of a database.",
        ),
        ("backup", "service.cli.database:backup", "Back up a server's database to a file."),
        ("restore", "service.cli.database:restore", "Fill an empty database from a backup."),
        (
            "upgrade",
            "service.cli.database:upgrade",
            "Upgrade the database of an older version.",
        ),
        (
            "clock",
            "service.cli.database:clock",
            "Confirm a clock that a server does not trust.",
        ),
    ),
    "Shell and programs": (
        (
            "completion",
            "service.cli.completion:completion",
            "Set up shell completion of commands, options and a server's ids.",
        ),
        (
            "json-schema",
            "service.cli.schemas:json_schema",
            "Print the JSON Schema of a command's -o json output.",
        ),
    ),
}

#: The same as commands, in the order that help shows.
PARTS: Final = tuple(
    LazyCommand(*command, section)
    for section, commands in _SECTIONS.items()
    for command in commands
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
