"""The SQL tables. Instants are milliseconds since the epoch; nothing here is particular to one database.

`mapping_versions` and `phase_changes` are append-only: all intent and history. `fragments.version` and `.phase` are
the one place that changes, by a compare-and-set in one statement.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
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
    Column("applier_timeout_ms", Integer, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("phase", String(16), nullable=False),
)

mapping_versions = Table(
    "mapping_versions",
    metadata,
    Column("fragment", ForeignKey("fragments.name"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("moves", Integer, nullable=False),
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
    Column("applied_version", Integer),
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
    Column("seen_at_ms", BigInteger, nullable=False),
)
