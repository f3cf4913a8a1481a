"""`agenda backup`, `restore`, `upgrade`: a server's database as a whole."""

from __future__ import annotations

from pathlib import Path

import click

from service.cli.terminal.errors import reports_errors

_DATABASE = click.option(
    "--database",
    default="sqlite:///agenda.db",
    show_default=True,
    help="URL of the database.",
)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_DATABASE
@reports_errors
def backup(file: Path, database: str) -> None:
    """Write a database into FILE as it is at one instant, while its servers go on.

    FILE is the same for every kind of database; 'agenda restore' fills an empty one from it.
    """
    from service.maintenance.backup import back_up

    found = back_up(database, file)
    click.echo(f"{file}: version {found.version} of the Plan, {sum(found.rows.values())} rows")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_DATABASE
@reports_errors
def restore(file: Path, database: str) -> None:
    """Fill an empty database from a backup, and bring it up to date."""
    from service.maintenance.backup import restore as fill
    from service.maintenance.upgrade import upgrade_in_place

    found = fill(file, database)
    upgrade_in_place(database)
    click.echo(f"version {found.version} of the Plan, {sum(found.rows.values())} rows restored")


@click.command()
@_DATABASE
@click.option(
    "--backup",
    "kept",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the backup is kept; else agenda-SCHEMA.backup in this folder.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@reports_errors
def upgrade(database: str, kept: Path | None, dry_run: bool) -> None:
    """Bring the database of an older version up to date, with a backup before.

    Stop all servers of the database first.
    """
    from service.maintenance.upgrade import bring_up_to_date, outlook

    found = outlook(database)
    if not found.steps:
        click.echo(f"the database is up to date: its schema is {found.schema}")
        return
    file = kept or Path(f"agenda-{found.schema}.backup")
    word = "would keep" if dry_run else "keeping"
    click.echo(f"{word} a backup in {file}")
    for step in found.steps:
        click.echo(f"{'would run' if dry_run else 'running'} {step.revision}: {step.summary}")
    if dry_run:
        return
    bring_up_to_date(database, file)
    click.echo(f"the schema is {found.newest} now; start the servers")
