"""Alembic's entry: runs the revisions on the connection it is handed, or prints their SQL."""

import sqlalchemy as sa
from alembic import context

from meta.store.database import open_engine
from meta.store.tables import metadata


def run_offline() -> None:
    """`alembic -x dialect=postgresql upgrade head --sql` prints the statements for a database administrator."""
    dialect = context.get_x_argument(as_dictionary=True).get("dialect", "sqlite")
    context.configure(dialect_name=dialect, target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


def run_on(connection: sa.Connection) -> None:
    # SQLite cannot alter most of a table in place; batch mode copies it, and is plain ALTER elsewhere.
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    connection = context.config.attributes.get("connection")
    if connection is not None:
        run_on(connection)
        return
    url = context.get_x_argument(as_dictionary=True).get("url")
    if not url:
        raise SystemExit("which database? alembic -x url=sqlite:///meta.db ... or url=postgresql://...")
    engine = open_engine(url)
    with engine.begin() as opened:
        run_on(opened)
    engine.dispose()


if context.is_offline_mode():
    run_offline()
else:
    run_online()
