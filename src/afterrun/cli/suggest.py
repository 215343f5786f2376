"""Unknown commands and options answer with the nearest known word."""

from __future__ import annotations

from typing import Final

import click

from afterrun.cli.text import masked
from afterrun.core.errors import did_you_mean

NOT_OFFERED: Final = {
    "--backup": "only prune --apply makes backups",
    "--backup-kind": "only prune --apply makes backups",
}
"""Options for which the nearest known word would be dangerous advice."""


class SuggestingGroup(click.Group):
    """A group of commands that are never abbreviated."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its whole name, or say which one may have been meant."""
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            raise click.UsageError(
                f"there is no command {masked(name)[:40]!r}{did_you_mean(name, self.commands)}; "
                f"commands: {', '.join(self.commands)}",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order in which people use them."""
        return list(self.commands)


def explain_option(error: click.NoSuchOption) -> str:
    """Say that an option does not exist, and which one may have been meant."""
    name = error.option_name
    if name in NOT_OFFERED:
        return f"there is no option {name}: {NOT_OFFERED[name]}"
    known = [] if error.ctx is None else _options(error.ctx.command)
    return f"there is no option {masked(name)[:60]!r}{did_you_mean(name, known)}"


def _options(command: click.Command) -> list[str]:
    return ["--help", *(word for parameter in command.params for word in parameter.opts if word[:1] == "-")]
