"""`maestro export`, `pull`, `verify`, `cleanup`, `sweep`: what is on disk."""

from __future__ import annotations

import click

from maestro_cli import complete as offers
from maestro_cli import output
from maestro_cli.app import App, json_option, pass_app


@click.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "json"]),
    help="md to read, json to process (default: as PATH ends, else md).",
)
@click.option("--output", "path", type=click.Path(dir_okay=False), metavar="PATH", help="Where (default: its archive).")
@click.option("--redact", is_flag=True, help="Replace what looks like a secret by what kind it is.")
@json_option
@pass_app
def export(app: App, ref: str | None, form: str | None, path: str | None, redact: bool, as_json: bool) -> None:
    """Write a session's whole history to one file.

    \b
    Example:
      maestro export fix-login --format md --output fix-login.md --redact
    """
    if form is None:
        form = "json" if path is not None and path.lower().endswith(".json") else "md"
    done = app.maestro.archive.export(ref, form=form, output=path, redact=redact)
    for warning in done.warnings:
        output.warning(warning)
    output.result(done, output.safe(done.path), as_json=as_json)


@click.command()
@click.argument("ref", required=False, shell_complete=offers.sessions)
@click.option("--all", "every", is_flag=True, help="Every archive of this project, or below the archive root.")
@click.option("--secrets", is_flag=True, help="Also list what looks like a secret that a tool printed.")
@json_option
@pass_app
def verify(app: App, ref: str | None, every: bool, secrets: bool, as_json: bool) -> int:
    """Check that an archive is what was written: every digest, file by file.

    With --secrets, file, line and kind of each place that looks like a secret, never the value; they do not count as
    damage. maestro export --redact leaves them out.

    \b
    Example:
      maestro verify fix-login --secrets
    """
    room = app.maestro.archive
    report = room.verify_all() if every else room.verify(ref)
    leaks = (room.secrets_all() if every else room.secrets(ref)) if secrets else []
    if as_json:
        output.document(output.plain(report) | ({"secrets": leaks} if secrets else {}))
    else:
        for damage in report.damaged:
            output.line(f"{output.colour('damaged', 'red')}  {output.safe(damage.path)}: {output.safe(damage.reason)}")
        word = output.state_word("ok") if report.ok else output.colour(f"{len(report.damaged)} damaged", "red")
        gone = f", {len(report.removed)} removed by cleanup" if report.removed else ""
        for leak in leaks:
            output.line(f"{output.colour('secret', 'yellow')}  {output.safe(leak.path)}:{leak.line}: {leak.rule}")
        gone += f", {output.counted(len(leaks), 'likely secret')}" if secrets else ""
        output.line(f"{output.counted(report.checked, 'file')} checked, {word}{gone}")
    return 0 if report.ok else 1


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option(
    "--days",
    type=click.IntRange(0, 36_500),
    metavar="N",
    help="Days since a session was ended (default: 30; 0: every ended one).",
)
@click.option("--foreign", is_flag=True, help="Also archives that another program wrote.")
@json_option
@pass_app
def cleanup(app: App, dry_run: bool, days: int | None, foreign: bool, as_json: bool) -> None:
    """Remove outputs and dry runs of sessions ended long ago, and old logs.

    Made for cron. Records, context, prompts, the last output and relevant outputs always stay. So does everything of a
    session that was not ended, and everything in an archive that is damaged. Nobody else cleans
    up unless MAESTRO_CLEANUP is on or somebody starts a scheduler. With MAESTRO_ARCHIVE_ROOT it is every project below.

    \b
    Example:
      maestro cleanup --dry-run --days 60
    """
    report = app.maestro.archive.cleanup(days=days, dry_run=dry_run, foreign=foreign)
    for one in report.damaged:
        output.warning(f"{one.id}: {one.reason}")
    if as_json:
        output.document(report)
        return
    if report.busy and not report.removed:
        output.line("another cleanup is running; this one did nothing")
        return
    for path in report.removed:
        output.line(output.safe(path))
    for path in report.repaired:
        output.line(f"{output.safe(path)} {'would be put right' if dry_run else 'put right'}")
    word = "would go" if dry_run else "removed"
    output.note(f"{len(report.removed)} {word}, {report.kept} kept")
    if report.on_server:
        count = output.counted(len(report.on_server), "ended session")
        shown = ", ".join(report.on_server[:3]) + (", …" if len(report.on_server) > 3 else "")
        output.note(f"{count} left alone, since the server still has {shown}")
    if report.foreign:
        count = output.counted(len(report.foreign), "archive")
        output.note(f"{count} of other programs left alone (--foreign cleans them too)")


@click.command()
@json_option
@pass_app
def sweep(app: App, as_json: bool) -> int:
    """Checkpoint, finalize and recover all sessions once.

    Writes changes to disk, freezes what is over, recovers runs.

    \b
    Example:
      maestro sweep --json
    """
    from maestro_workers.sweep import sweep as one_pass

    report = one_pass(app.maestro)
    if as_json:
        output.document(report)
    else:
        done = [(word, one) for word in ("checkpointed", "finalized", "archived", "recovered_runs")
                for one in getattr(report, word)]  # fmt: skip
        for word, one in done:
            output.line(f"{word.replace('_', ' ')}  {output.safe(one)}")
        if report.busy:
            output.note(f"another sweep is running ({output.safe(report.busy)}): what it has was left to it")
        elif not (done or report.waiting or report.errors):
            output.note("nothing to do: everything is on disk")
        for one in report.waiting:
            output.note(f"{output.safe(one)} waits for a worker that can reach its folder")
        for failure in report.errors:
            output.warning(f"{failure.id}: {failure.reason}")
    return 1 if report.errors else 0


@click.command()
@click.argument("ref", shell_complete=offers.sessions)
@json_option
@pass_app
def pull(app: App, ref: str, as_json: bool) -> None:
    """Bring an archived session from the team's server into this checkout.

    REF is a full id, a slug, the six characters at the end of an id, or a framework's key like openai:customer-42. A
    worker that has the archive sends it; every file is checked on arrival, and nothing is kept of one that does not
    arrive whole.

    \b
    Example:
      maestro pull fix-login
    """
    with output.status_line() as told:
        if told:
            told("waiting for a worker")

        def show(done: int, total: int) -> None:
            if told:
                told(f"{done // 1024} of {total // 1024} KiB")

        done = app.maestro.archive.pull(ref, show)
    if as_json:
        output.document(done)
    else:
        output.line(output.safe(done.path))
        output.note(f"{done.files} files, checked" if done.written else "it was here already")
        if done.trashed:
            output.note(f"what was here before is in {output.safe(done.trashed)}")
