"""labels, policies, loads, tokens, audit, idempotent answers

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("caller", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_audit_entries_at_ms"), "audit_entries", ["at_ms"], unique=False)
    op.create_index(op.f("ix_audit_entries_subject"), "audit_entries", ["subject"], unique=False)

    op.create_table(
        "idempotent_answers",
        sa.Column("caller", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.JSON(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotent_answers")),
    )
    op.create_index(
        op.f("ix_idempotent_answers_created_at_ms"), "idempotent_answers", ["created_at_ms"], unique=False
    )

    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_at_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
    )
    op.create_table(
        "vnode_loads",
        sa.Column("fragment", sa.String(length=63), nullable=False),
        sa.Column("reporter", sa.String(length=64), nullable=False),
        sa.Column("loads", sa.LargeBinary(), nullable=False),
        sa.Column("observed_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["fragment"], ["fragments.name"], name=op.f("fk_vnode_loads_fragment_fragments")
        ),
        sa.PrimaryKeyConstraint("fragment", "reporter", name=op.f("pk_vnode_loads")),
    )
    op.add_column("fragments", sa.Column("table_ids", sa.JSON(), server_default="[]", nullable=False))
    op.add_column("fragments", sa.Column("adaptive", sa.JSON(), nullable=True))
    op.add_column("fragments", sa.Column("oldest_version", sa.Integer(), server_default="1", nullable=False))
    op.add_column("fragments", sa.Column("load_exceeded_since_ms", sa.BigInteger(), nullable=True))

    op.add_column(
        "mapping_versions", sa.Column("cause", sa.String(length=16), server_default="rescale", nullable=False)
    )
    op.add_column("mapping_versions", sa.Column("plan", sa.String(length=32), nullable=True))

    op.add_column("plans", sa.Column("goal", sa.JSON(), server_default="{}", nullable=False))
    op.add_column("plans", sa.Column("cause", sa.String(length=16), server_default="rescale", nullable=False))
    op.add_column("plans", sa.Column("leaving", sa.JSON(), server_default="[]", nullable=False))
    op.add_column("plans", sa.Column("reasons", sa.LargeBinary(), nullable=True))
    op.add_column("plans", sa.Column("warnings", sa.JSON(), server_default="[]", nullable=False))
    op.add_column("plans", sa.Column("remaining_moves", sa.Integer(), server_default="0", nullable=False))
    op.add_column("plans", sa.Column("applied_at_ms", sa.BigInteger(), nullable=True))
    op.add_column("plans", sa.Column("handover", sa.JSON(), nullable=True))
    # The service before this one did not note it; it was soon after the plan was made.
    op.execute("UPDATE plans SET applied_at_ms = created_at_ms WHERE applied_version IS NOT NULL")

    op.add_column("subscribers", sa.Column("handed_over", sa.JSON(), nullable=True))

    op.add_column("workers", sa.Column("labels", sa.JSON(), server_default="{}", nullable=False))
    op.add_column("workers", sa.Column("draining", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    op.drop_column("workers", "draining")
    op.drop_column("workers", "labels")

    op.drop_column("subscribers", "handed_over")

    op.drop_column("plans", "handover")
    op.drop_column("plans", "applied_at_ms")
    op.drop_column("plans", "remaining_moves")
    op.drop_column("plans", "warnings")
    op.drop_column("plans", "reasons")
    op.drop_column("plans", "leaving")
    op.drop_column("plans", "cause")
    op.drop_column("plans", "goal")

    op.drop_column("mapping_versions", "plan")
    op.drop_column("mapping_versions", "cause")

    op.drop_column("fragments", "load_exceeded_since_ms")
    op.drop_column("fragments", "oldest_version")
    op.drop_column("fragments", "adaptive")
    op.drop_column("fragments", "table_ids")

    op.drop_table("vnode_loads")
    op.drop_table("tokens")
    op.drop_index(op.f("ix_idempotent_answers_created_at_ms"), "idempotent_answers")

    op.drop_table("idempotent_answers")
    op.drop_index(op.f("ix_audit_entries_subject"), "audit_entries")
    op.drop_index(op.f("ix_audit_entries_at_ms"), "audit_entries")

    op.drop_table("audit_entries")
