"""Commands on the tokens of applications, with or without a running node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zerorag_p2p.cli import output
from zerorag_p2p.cli.command import connect, example, home_option, json_option, running
from zerorag_p2p.errors import UsageError
from zerorag_p2p.files import write_atomic
from zerorag_p2p.home import Home

if TYPE_CHECKING:
    from zerorag_p2p.client import Client
    from zerorag_p2p.control.offline import OfflineTokens

Json = dict[str, Any]

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
_OWNER_ONLY: Final = 0o600

out_option = click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the token to this file, for its owner only, instead of showing it.",
)


@click.group(epilog=example("zerorag token create intranet --scope query --days 90"))
def token() -> None:
    """Manage the tokens of applications that reach the node over TCP.

    The node listens for them where `api.listen` in its config.toml says.
    """


@token.command(
    epilog=example(
        "zerorag token create intranet --scope query --days 90",
        "zerorag token create monitoring --scope read-only --out monitoring.token",
    )
)
@click.argument("label")
@click.option(
    "--scope",
    type=click.Choice(["query", "read-only", "admin"]),
    required=True,
    help="query: ask and read documents; read-only: look at the node; admin: both, and change it.",
)
@click.option(
    "--days", type=click.IntRange(1, 3_660), help="How long it is valid.  [default: ever]"
)
@out_option
@home_option
@json_option
def create(
    *, label: str, scope: str, days: int | None, out: Path | None, home: Home, as_json: bool
) -> None:
    """Make a token for the application LABEL. It is shown once, and kept only as a hash."""
    with _tokens(home) as tokens:
        made = tokens.create_token(
            label, scope=scope, lifetime_s=None if days is None else days * _DAY_S
        )
    _hand_over(made, out, as_json=as_json)


@token.command("list", epilog=example("zerorag token list"))
@home_option
@json_option
def list_(home: Home, as_json: bool) -> None:
    """List the tokens that are valid."""
    with _tokens(home) as tokens:
        rows = tokens.tokens()
    if as_json:
        output.print_json(rows)
        return
    output.print_table(
        ("label", "scope", "made", "valid until"),
        [(row["label"], row["scope"], output.moment(row["created_at"]), _end(row)) for row in rows],
    )


@token.command(
    epilog=example("zerorag token rotate intranet", "zerorag token rotate intranet --overlap 24")
)
@click.argument("label")
@click.option(
    "--overlap",
    type=click.IntRange(0, 24 * 366),
    metavar="HOURS",
    default=0,
    show_default=True,
    help="How long the present token counts beside the new one.",
)
@out_option
@home_option
@json_option
def rotate(label: str, overlap: int, out: Path | None, home: Home, as_json: bool) -> None:
    """Make a new token in the place of that of LABEL, with the same scope and lifetime."""
    with _tokens(home) as tokens:
        made = tokens.rotate_token(label, overlap_s=overlap * _HOUR_S)
    _hand_over(made, out, as_json=as_json)


@token.command(epilog=example("zerorag token revoke intranet"))
@click.argument("label")
@home_option
@json_option
def revoke(label: str, home: Home, as_json: bool) -> None:
    """End the tokens of LABEL at once, and the requests that are under way with them."""
    with _tokens(home) as tokens:
        value = tokens.revoke_token(label)
    if as_json:
        output.print_json(value)
    else:
        click.echo(f"revoked {output.counted(value['revoked'], 'token')} of {label}")


@token.command(
    epilog=example(
        "zerorag token pseudonym dr-smith --label intranet",
        "zerorag token pseudonym --label intranet",
    )
)
@click.argument("user", default="")
@click.option("--label", default="", help="The application.  [default: users of this machine]")
@home_option
@json_option
def pseudonym(user: str, label: str, home: Home, as_json: bool) -> None:
    """Show under which name others know the USER of an application.

    Without a USER: the application itself, when it does not say who asks.
    """
    if not user and not label:
        raise UsageError("name a user, an application with --label, or both")
    with _tokens(home) as tokens:
        value = tokens.pseudonym(user, application=label)
    if as_json:
        output.print_json(value)
    else:
        click.echo(value["pseudonym"])


@contextmanager
def _tokens(home: Home) -> Iterator[Client | OfflineTokens]:
    """The tokens of `home`, through its node if one runs."""
    if running(home):
        with connect(home) as client:
            yield client
    else:
        from zerorag_p2p.control.offline import OfflineTokens

        with OfflineTokens(home) as tokens:
            yield tokens


def _hand_over(made: Json, out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        write_atomic(out, f"{made.pop('token')}\n".encode(), mode=_OWNER_ONLY)
        made["file"] = str(out)
    if as_json:
        output.print_json(made)
        return
    output.print_fields(
        [
            ("label", made["label"]),
            ("scope", made["scope"]),
            ("valid until", _end(made)),
            ("token", made.get("token", f"in {out}")),
        ]
    )
    if out is None:
        click.echo("Keep it now: it is not shown again.")


def _end(row: Json) -> str:
    return "it is revoked" if row["ends_at"] is None else output.moment(row["ends_at"])
