"""first tables

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "fragments",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("vnode_count", sa.Integer(), nullable=False),
        sa.Column("distribution_key", sa.JSON(), nullable=False),
        sa.Column("hash_id", sa.String(length=255), nullable=False),
        sa.Column("applier_timeout_ms", sa.Integer(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_fragments")),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("heartbeat_timeout_ms", sa.Integer(), nullable=True),
        sa.Column("registered_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workers")),
    )
    op.create_table(
        "mapping_versions",
        sa.Column("fragment", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("moves", sa.Integer(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["fragment"], ["fragments.name"], name=op.f("fk_mapping_versions_fragment_fragments")
        ),
        sa.PrimaryKeyConstraint("fragment", "version", name=op.f("pk_mapping_versions")),
    )
    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("fragment", sa.String(length=63), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("units", sa.JSON(), nullable=False),
        sa.Column("owners", sa.Text(), nullable=False),
        sa.Column("certificate", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("applied_version", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["fragment"], ["fragments.name"], name=op.f("fk_plans_fragment_fragments")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_plans_fragment"), ["fragment"], unique=False)

    op.create_table(
        "subscribers",
        sa.Column("fragment", sa.String(length=63), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("acknowledged_version", sa.Integer(), nullable=True),
        sa.Column("seen_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["fragment"], ["fragments.name"], name=op.f("fk_subscribers_fragment_fragments")
        ),
        sa.PrimaryKeyConstraint("fragment", "id", name=op.f("pk_subscribers")),
    )
    op.create_table(
        "units",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=63), nullable=False),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name=op.f("fk_units_worker_workers")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_units")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("units", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_units_worker"), ["worker"], unique=False)

    op.create_table(
        "phase_changes",
        sa.Column("fragment", sa.String(length=63), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["fragment", "version"],
            ["mapping_versions.fragment", "mapping_versions.version"],
            name=op.f("fk_phase_changes_fragment_version_mapping_versions"),
        ),
        sa.PrimaryKeyConstraint("fragment", "version", "phase", name=op.f("pk_phase_changes")),
    )


def downgrade() -> None:
    op.drop_table("phase_changes")
    with op.batch_alter_table("units", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_units_worker"))

    op.drop_table("units")
    op.drop_table("subscribers")
    with op.batch_alter_table("plans", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_plans_fragment"))

    op.drop_table("plans")
    op.drop_table("mapping_versions")
    op.drop_table("workers")
    op.drop_table("fragments")
