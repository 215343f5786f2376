"""What Alembic runs: the revisions, on the connection that it is given, inside its transaction."""

from __future__ import annotations

from alembic import context

from afterrun.runs.schema import metadata
from afterrun.runs.upgrade import VERSION_TABLE

config = context.config
context.configure(
    connection=config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    version_table_schema=config.attributes["schema"],
)
with context.begin_transaction():
    context.run_migrations()
