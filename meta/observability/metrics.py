"""What this process counts and times, for Prometheus. What SQL knows is read at each scrape: see `overview`."""

from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

# From an unchanged publish beside etcd to the longest wait that anything here has.
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """One service's, in a registry of its own, so that a process may hold several. Thread-safe."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self.requests = Counter(
            "vnodemap_http_requests",
            "HTTP requests, by the route's template.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.request_seconds = Histogram(
            "vnodemap_http_request_duration_seconds",
            "Time until an answer began, by the route's template.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.replays = Counter(
            "vnodemap_idempotency_replays",
            "Requests answered with the stored answer of an earlier one under the same Idempotency-Key.",
            registry=registry,
        )
        self.plan_seconds = Histogram(
            "vnodemap_plan_duration_seconds", "Time to make a plan.", buckets=_SECONDS, registry=registry
        )
        self.publish_seconds = Histogram(
            "vnodemap_publish_duration_seconds",
            "Time from the commit of a change in SQL until etcd had it (only where etcd took it).",
            buckets=_SECONDS,
            registry=registry,
        )
        self.publishes = Counter(
            "vnodemap_publishes",
            "Publishes to etcd by outcome: written, unchanged, ahead, failed and such.",
            ["outcome"],
            registry=registry,
        )
        self.reconcile_seconds = Histogram(
            "vnodemap_reconcile_duration_seconds",
            "Time of a pass over all fragments.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.reconciled_at = Gauge(
            "vnodemap_reconcile_last_success_timestamp_seconds",
            "When a pass over all fragments last ended well, 0 before the first.",
            registry=registry,
        )
        self.database_failures = Counter(
            "vnodemap_database_failures",
            "Statements that the database failed, by kind; conflicts are tried again by the service itself.",
            ["failure"],
            registry=registry,
        )
        self.etcd_up = Gauge(
            "vnodemap_etcd_up", "1 if etcd answered when it was last asked, else 0.", registry=registry
        )
        self.streams = Gauge(
            "vnodemap_event_streams", "Event streams that are open on this replica.", registry=registry
        )
        build = Gauge("vnodemap_build_info", "Always 1.", ["version"], registry=registry)
        build.labels(version("vnodemap")).set(1)
