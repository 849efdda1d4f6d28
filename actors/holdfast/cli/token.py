"""``holdfast token``: tokens for the file that ``holdfast serve --tokens`` reads."""

from __future__ import annotations

import secrets

import click

from holdfast.cli.options import option
from holdfast.errors import InvalidRequest

ROLES = ("reader", "user", "operator")


@click.group(short_help="Make tokens for --tokens.")
def token() -> None:
    """Make tokens for the file that 'holdfast serve --tokens' reads."""


@token.command(short_help="Make a token.")
@option("--name", required=True, help="Whom it is for, as the audit log shows it.")
@option("--role", type=click.Choice(ROLES), default="user", help="What it may do.")
@option("--tenant", default="*", help="Whose it is: it sees this tenant's queues, instances and keys only. '*': all.")
def new(name: str, role: str, tenant: str) -> None:
    """Make a token, and print it with the table to put into the file.

    The file has its digest only: the token itself is shown this once.
    """
    from holdfast.gateway.token_file import NO_TENANT
    from holdfast.gateway.tokens import digest_of
    from holdfast.identity import check_id, check_tenant

    try:
        check_id(name, "name")
        if tenant != NO_TENANT:
            check_tenant(tenant)
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    secret = f"hf_{secrets.token_urlsafe(32)}"
    lines = [
        "[[token]]",
        f'name = "{name}"',
        f'role = "{role}"',
        f'tenant = "{tenant}"',
        f'sha256 = "{digest_of(secret.encode()).hex()}"',
    ]
    # Apart, so that '>> tokens.toml' takes the table, and people see the token.
    click.echo(f"The token, which is not shown again:\n{secret}\n\nFor the file of tokens:", err=True)
    click.echo("\n".join(lines) + "\n")
