"""The SQL tables. Instants are milliseconds since the epoch; nothing here is particular to one database.

`mapping_versions` and `phase_changes` are append-only: all intent and history. `fragments.version` and `.phase` are
the one place that changes, by a compare-and-set in one statement.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    and_,
    false,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

workers = Table(
    "workers",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("labels", JSON, nullable=False, server_default="{}"),
    Column("draining", Boolean, nullable=False, server_default=false()),
    Column("heartbeat_timeout_ms", Integer),
    Column("registered_at_ms", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
)

units = Table(
    "units",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("worker", ForeignKey("workers.name"), nullable=False),
    Index(None, "worker"),
    sqlite_autoincrement=True,  # an id must not come back with another meaning
)

fragments = Table(
    "fragments",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("vnode_count", Integer, nullable=False),
    Column("distribution_key", JSON, nullable=False),
    Column("hash_id", String(255), nullable=False),
    Column("table_ids", JSON, nullable=False, server_default="[]"),
    Column("adaptive", JSON),
    Column("applier_timeout_ms", Integer, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("oldest_version", Integer, nullable=False, server_default="1"),
    Column("load_exceeded_since_ms", BigInteger),
)

mapping_versions = Table(
    "mapping_versions",
    metadata,
    Column("fragment", ForeignKey("fragments.name"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("moves", Integer, nullable=False),
    Column("cause", String(16), nullable=False, server_default="rescale"),
    Column("plan", String(32)),
    Column("created_at_ms", BigInteger, nullable=False),
)

phase_changes = Table(
    "phase_changes",
    metadata,
    Column("fragment", String(63), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("phase", String(16), primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    ForeignKeyConstraint(["fragment", "version"], ["mapping_versions.fragment", "mapping_versions.version"]),
)

plans = Table(
    "plans",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("fragment", ForeignKey("fragments.name"), nullable=False),
    Column("base_version", Integer, nullable=False),
    Column("units", JSON, nullable=False),
    Column("owners", Text, nullable=False),
    Column("certificate", JSON, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("goal", JSON, nullable=False, server_default="{}"),
    Column("cause", String(16), nullable=False, server_default="rescale"),
    Column("leaving", JSON, nullable=False, server_default="[]"),
    Column("reasons", LargeBinary),
    Column("remaining_moves", Integer, nullable=False, server_default="0"),
    Column("warnings", JSON, nullable=False, server_default="[]"),
    Column("applied_version", Integer),
    Column("applied_at_ms", BigInteger),
    Column("handover", JSON),
    Index(None, "fragment"),
)

subscribers = Table(
    "subscribers",
    metadata,
    Column("fragment", ForeignKey("fragments.name"), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("acknowledged_version", Integer),
    Column("handed_over", JSON),
    Column("seen_at_ms", BigInteger, nullable=False),
)

vnode_loads = Table(
    "vnode_loads",
    metadata,
    Column("fragment", ForeignKey("fragments.name"), primary_key=True),
    Column("reporter", String(64), primary_key=True),
    Column("loads", LargeBinary, nullable=False),
    Column("observed_at_ms", BigInteger, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("secret_hash", String(64), nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("revoked_at_ms", BigInteger),
)

audit_entries = Table(
    "audit_entries",
    metadata,
    # SQLite counts up integers of this one type only.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("caller", String(255), nullable=False),
    Column("role", String(16), nullable=False),
    Column("request_id", String(64), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", String(255), nullable=False),
    Column("detail", JSON, nullable=False),
    Index(None, "at_ms"),
    Index(None, "subject"),
    sqlite_autoincrement=True,
)

idempotent_answers = Table(
    "idempotent_answers",
    metadata,
    Column("caller", String(255), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("request_digest", String(64), nullable=False),
    Column("status", Integer),
    Column("headers", JSON),
    Column("body", LargeBinary),
    Column("created_at_ms", BigInteger, nullable=False),
    Index(None, "created_at_ms"),
)

# Each fragment with its current version.
at_current = fragments.join(
    mapping_versions,
    and_(mapping_versions.c.fragment == fragments.c.name, mapping_versions.c.version == fragments.c.version),
)
