"""What every command shares: the home option, the JSON option, an example, and how it fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from zerorag_p2p.errors import NodeNotRunningError, ZeroRagError
from zerorag_p2p.home import Home

if TYPE_CHECKING:
    from zerorag_p2p.client import Client

_INTERRUPTED: Final = 130


class Program(click.Group):
    """The group of all commands; turns what they raise into sentences and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except ZeroRagError as error:
            _fail(ctx, str(error), error.exit_code)
        except BrokenPipeError:
            raise  # click ends quietly when the reader of a pipe has gone.
        except OSError as error:
            _fail(ctx, f"{error.filename or 'input or output'}: {error.strerror}", 1)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(_INTERRUPTED)


def _fail(ctx: click.Context, sentence: str, exit_code: int) -> NoReturn:
    click.echo(f"error: {sentence}", err=True)
    ctx.exit(exit_code)


class _HomeType(click.ParamType[Home]):
    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Home:
        del param, ctx
        return value if isinstance(value, Home) else Home.resolve(value, os.environ)


#: The type of options that name a node's folder.
home_type = _HomeType()

#: Every command that touches a node takes `--home`; the parameter is a `Home`.
home_option = click.option(
    "--home",
    type=home_type,
    default=lambda: Home.resolve(None, os.environ),
    help="Folder of the node.  [default: $ZERORAG_HOME, else the user's data folder]",
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on standard output."
)


def example(*commands: str) -> str:
    """The epilog of a command: how it is typed."""
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands)


def connect(home: Home) -> Client:
    """A client of the node in `home`. Imported late: `zerorag --help` needs no HTTP."""
    from zerorag_p2p.client import Client

    home.require()
    return Client(home)


def running(home: Home) -> bool:
    """Whether a node answers in `home`."""
    with connect(home) as client:
        try:
            client.status()
        except NodeNotRunningError:
            return False
        return True
