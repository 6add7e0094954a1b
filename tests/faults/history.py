"""What must be true of a fragment in the end, by its own SQL rows, by etcd and by every replica."""

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
import sqlalchemy as sa

from meta.etcd.client import EtcdClient
from meta.mapping.publication import DEFAULT_ROOT, Current, Phase, current_key, decode_body, version_key
from meta.store.database import open_engine
from tests.faults.cluster import Deployment
from tests.faults.load import Operator
from tests.faults.witness import Testimony

ENDS = {"settled", "aborted", "superseded"}


@dataclass(frozen=True)
class History:
    """A fragment as the database has it."""

    current: Current
    bodies: dict[int, bytes]
    digests: dict[int, str]
    causes: dict[int, str]
    phases: dict[int, set[str]]
    applied: dict[str, int | None]
    acknowledged: dict[str, int | None]

    @classmethod
    def read(cls, database_url: str, fragment: str) -> "History":
        engine = open_engine(database_url)
        try:
            with engine.connect().execution_options(vnodemap_reads_only=True) as connection:

                def rows(columns: str, table: str, key: str = "fragment") -> list[Any]:
                    statement = sa.text(f"SELECT {columns} FROM {table} WHERE {key} = :name")
                    return list(connection.execute(statement, {"name": fragment}))

                ((version, phase),) = rows("version, phase", "fragments", "name")
                versions = rows("version, body, digest, cause", "mapping_versions")
                phases: dict[int, set[str]] = {}
                for of, reached in rows("version, phase", "phase_changes"):
                    phases.setdefault(of, set()).add(reached)
                digests = {row.version: row.digest for row in versions}
                return cls(
                    current=Current(version, Phase(phase), digests[version]),
                    bodies={row.version: bytes(row.body) for row in versions},
                    digests=digests,
                    causes={row.version: row.cause for row in versions},
                    phases=phases,
                    applied=dict(rows("id, applied_version", "plans")),
                    acknowledged=dict(rows("id, acknowledged_version", "subscribers")),
                )
        finally:
            engine.dispose()

    def require_sound(self, fragment: str) -> None:
        """Versions without a gap, each with its own digest, and each begun after the one before had ended."""
        versions = sorted(self.bodies)
        assert versions == list(range(versions[0], self.current.version + 1))
        for version, body in self.bodies.items():
            assert hashlib.sha256(body).hexdigest() == self.digests[version]
            decoded = decode_body(body)
            assert (decoded.fragment, decoded.version) == (fragment, version)
        for before, after in pairwise(versions):
            assert self.phases[before] & ENDS, f"{before} was in flight when {after} began"

    def require_kept(self, operator: Operator, *, restored: bool) -> None:
        """Everything that a 2xx said is so; but of what is not published, a restored database knows only its own."""
        promised = operator.promised
        assert len(set(promised.values())) == len(promised), f"two plans became one version: {promised}"
        for token, version in promised.items():
            assert version in self.bodies, f"version {version} was promised and is lost"
            plan = token.partition(".")[0]
            assert self.applied.get(plan, version if restored else None) == version
        if operator.acknowledged:
            assert (self.acknowledged["operator"] or 0) >= operator.acknowledged

    def require_seen(self, testimony: Testimony) -> None:
        """Nobody saw a version that the database does not have, nor one of other bytes."""
        assert testimony.violations == []
        seen = {version: digest for version, digest in testimony.digests.items() if version in self.digests}
        assert seen == testimony.digests
        assert seen == {version: self.digests[version] for version in seen}


def require_published(cluster: Deployment, fragment: str) -> History:
    """etcd and every replica have what the database has, the fragment has settled and every replica is ready."""
    history = History.read(cluster.database_url, fragment)
    assert history.current.phase is Phase.SETTLED
    with EtcdClient([cluster.etcd.endpoint]) as etcd:
        published = etcd.get(current_key(fragment))
        bodies = etcd.range(f"{DEFAULT_ROOT}/fragments/{fragment}/versions/").values
    assert published is not None
    assert published.value == history.current.encode()
    held = {value.key: value.value for value in bodies}
    assert version_key(fragment, history.current.version) in held
    known = {version_key(fragment, version): body for version, body in history.bodies.items()}
    assert held == {key: known[key] for key in held}
    for url in cluster.urls:
        current = httpx.get(f"{url}/v1/fragments/{fragment}/current", trust_env=False)
        assert current.content == history.current.encode()
        ready = httpx.get(f"{url}/v1/ready", trust_env=False)
        assert ready.json()["status"] == "ok", ready.text
    return history
