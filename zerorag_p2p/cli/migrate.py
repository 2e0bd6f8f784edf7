"""Going over to another embedding model."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option
from zerorag_p2p.errors import LocalError, UsageError
from zerorag_p2p.files import read_bounded
from zerorag_p2p.home import Home

Json = dict[str, Any]

_SETTINGS_LIMIT = 64 << 10


def model_settings(model: str) -> Json:
    """The settings of an embedding model that is named on the command line.

    Args:
        model: "builtin", a folder, the name of a model in the local cache; or a file that ends in
            .toml, with settings as in the table `[embedding]`.

    Raises:
        UsageError: The file cannot be read.
    """
    if not model.endswith(".toml"):
        folder = Path(model).expanduser()
        return {"model": str(folder.absolute()) if folder.is_dir() else model}
    try:
        return tomllib.loads(read_bounded(Path(model), _SETTINGS_LIMIT).decode())
    except (OSError, ValueError, LocalError) as error:
        raise UsageError(f"{model} is no file of settings: {error}") from None


@click.command(
    epilog=example(
        "zerorag migrate",
        "zerorag migrate --to /srv/models/clinical-embed",
        "zerorag migrate --to next-model.toml",
        "zerorag migrate --finish",
    )
)
@click.option(
    "--to",
    "model",
    metavar="MODEL",
    help="Begin: a folder, the name of a model, or a .toml file of [embedding] settings.",
)
@click.option("--finish", is_flag=True, help="Delete the vectors of the old model.")
@click.option("--cancel", is_flag=True, help="Stay with the model in use.")
@home_option
@json_option
def migrate(model: str | None, finish: bool, cancel: bool, home: Home, as_json: bool) -> None:
    """Go over to another embedding model, or show how far that is.

    The running node embeds its documents anew in the background and answers meanwhile as before. It
    goes over once the roster prefers the next model, and deletes the old vectors once the roster
    does not name the old model any more, or with --finish.
    """
    if (model is not None) + finish + cancel > 1:
        raise UsageError("--to, --finish and --cancel do not go together")
    value: Json | None
    with connect(home) as client:
        if model is not None:
            value = client.begin_migration(model_settings(model))
        elif finish:
            value = client.finish_migration()
        elif cancel:
            value = client.cancel_migration()
        else:
            value = client.status()["migration"]
    if as_json:
        output.print_json(value)
    elif value is None:
        click.echo("the node does not go over to another embedding model")
    else:
        output.print_fields(migration_fields(value))


def migration_fields(value: Json) -> list[tuple[str, str]]:
    """What people read of the status of a migration."""
    used, other = _named(value["used"]), value["other"] and _named(value["other"])
    progress = f"{value['done']} of {output.counted(value['sources'], 'source')}"
    if value["refused"]:
        progress += f"; {value['refused']} are embedded when it is in use, cut anew"
    match value["stage"]:
        case "embedding":
            state = f"{progress} embedded by {other}"
        case "answering":
            state = f"ready; the roster does not prefer {other} yet"
        case "in use":
            state = f"{used} is in use; {other} is still answered by"
        case _:
            state = f"over; let config.toml name {used}"
    fields = [("migration", state)]
    if value["fault"]:
        fields.append(("held up", value["fault"]))
    return fields


def _named(fingerprint: Json) -> str:
    return (
        f"{fingerprint['model']}@{fingerprint['revision'][:12]} "
        f"({fingerprint['dimension']} dimensions)"
    )
