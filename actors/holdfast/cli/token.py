"""``holdfast token``: makes tokens for the file that ``holdfast serve --tokens`` reads."""

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
@option("--name", required=True, help="Name of its holder, as the audit log shows it.")
@option("--role", type=click.Choice(ROLES), default="user", help="Its permissions.")
@option(
    "--tenant",
    required=True,
    metavar="NAME|*",
    help="Tenant: the token sees its queues, instances and keys only. '*': those of all tenants.",
)
def new(name: str, role: str, tenant: str) -> None:
    """Make a token, and print it with the table to put into the file.

    The file has its digest only: the token itself is shown once, now.
    """
    from holdfast.gateway.auth.token_file import NO_TENANT
    from holdfast.gateway.auth.tokens import digest_of
    from holdfast.names import check_id, check_tenant

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
    # The token goes to standard error, so that '>> tokens.toml' gets the table only.
    whose = "all tenants" if tenant == NO_TENANT else f"the tenant {tenant}"
    click.echo(
        f"The token of a {role} of {whose}, which is not shown again:\n{secret}\n\nFor the file of tokens:", err=True
    )
    click.echo("\n".join(lines) + "\n")
