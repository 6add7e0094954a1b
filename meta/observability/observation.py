"""What the use cases are watched by: one value, handed down, that counts, times, traces and names what is done."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter

from structlog.contextvars import bound_contextvars

from meta.observability.metrics import Metrics

Attributes = Mapping[str, str | int | None]

# A trace's span of that name, with these attributes (None: left out).
Span = Callable[[str, Attributes], AbstractContextManager[object]]


def unspanned(_name: str, _attributes: Attributes) -> AbstractContextManager[object]:
    return nullcontext()


def _nobody_listens() -> None:
    pass


@dataclass(slots=True)
class Publish:
    """One publish, told by who does it: what became of it, once that is known."""

    outcome: str = "failed"


@dataclass(frozen=True, slots=True)
class Observation:
    """`changed` is called after each commit that is to be published: somebody may wait for it. By default nobody."""

    metrics: Metrics = field(default_factory=Metrics)
    span: Span = unspanned
    changed: Callable[[], None] = _nobody_listens

    @contextmanager
    def planning(self, fragment: str) -> Iterator[None]:
        with (
            bound_contextvars(fragment=fragment),
            self.span("plan", {"fragment": fragment}),
            self.metrics.plan_seconds.time(),
        ):
            yield

    @contextmanager
    def publishing(self, fragment: str) -> Iterator[Publish]:
        """Where it begins right after a commit, the time is that from the commit on."""
        publish, began = Publish(), perf_counter()
        try:
            with bound_contextvars(fragment=fragment):
                yield publish
        finally:
            self.metrics.publishes.labels(publish.outcome).inc()
            if publish.outcome == "written":
                self.metrics.publish_seconds.observe(perf_counter() - began)

    @contextmanager
    def writing(self, fragment: str, version: int, rescale: str | None) -> Iterator[None]:
        """The part of a publish that is etcd's."""
        named: Attributes = {"fragment": fragment, "version": version, "rescale": rescale}
        with (
            bound_contextvars(**{name: value for name, value in named.items() if value is not None}),
            self.span("publish", named),
        ):
            yield

    @contextmanager
    def reconciling(self) -> Iterator[None]:
        with self.metrics.reconcile_seconds.time():
            yield
        self.metrics.reconciled_at.set_to_current_time()
