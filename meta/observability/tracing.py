"""OpenTelemetry, where it is asked for by its own environment variables and installed (extra `otel`).

Nothing of it is imported otherwise.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from fastapi import FastAPI

from meta.observability.observation import Attributes, Span, unspanned

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

log = logging.getLogger(__name__)

# Asked every second, by machines.
_UNTRACED = "/v1/health,/v1/ready,/metrics"
_INSTALL = (
    "OTEL_* variables ask for traces, and what sends them is not installed; `pip install vnodemap[otel]`"
)


@contextmanager
def tracing(engine: sa.Engine) -> Iterator["Tracing"]:
    """Off unless OTEL_TRACES_EXPORTER or OTEL_EXPORTER_OTLP_ENDPOINT is set. What is recorded is sent at the end."""
    exporter = _exporter(os.environ) if _asked_for(os.environ) else None
    if exporter is None:
        yield Tracing()
        return
    with traced_to(exporter, engine) as found:
        yield found


class Tracing:
    """What a service does for traces: nothing."""

    span: Span = staticmethod(unspanned)

    def instrument(self, app: FastAPI) -> None:
        """Before the application serves its first request."""


@contextmanager
def traced_to(exporter: "SpanExporter", engine: sa.Engine) -> Iterator[Tracing]:
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    name = os.environ.get("OTEL_SERVICE_NAME", "vnodemap")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("vnodemap")

    class Traced(Tracing):
        @staticmethod
        def span(name: str, attributes: Attributes) -> AbstractContextManager[object]:
            known = {f"vnodemap.{key}": value for key, value in attributes.items() if value is not None}
            return tracer.start_as_current_span(name, attributes=known)

        def instrument(self, app: FastAPI) -> None:
            FastAPIInstrumentor.instrument_app(
                app, tracer_provider=provider, excluded_urls=_UNTRACED, exclude_spans=["receive", "send"]
            )

    _trace_statements(engine, tracer)
    try:
        yield Traced()
    finally:
        provider.shutdown()


def _trace_statements(engine: sa.Engine, tracer: "Tracer") -> None:
    """A span for each, without its values. OpenTelemetry's own instrumentation takes no SQLAlchemy from 2.1 on."""
    from opentelemetry.trace import SpanKind, Status, StatusCode, get_current_span  # noqa: PLC0415

    running: WeakKeyDictionary[sa.engine.ExecutionContext, OtelSpan] = WeakKeyDictionary()

    @sa.event.listens_for(engine, "before_cursor_execute")
    def begin(
        _connection: Any, _cursor: Any, statement: str, _values: Any, context: Any, _many: bool
    ) -> None:
        # What the service does by itself every second is nobody's trace.
        if not get_current_span().get_span_context().is_valid:
            return
        named = {"db.system.name": engine.dialect.name, "db.query.text": statement}
        name = statement.split(maxsplit=1)[0].upper()
        running[context] = tracer.start_span(name, kind=SpanKind.CLIENT, attributes=named)

    @sa.event.listens_for(engine, "after_cursor_execute")
    def end(_connection: Any, _cursor: Any, _said: str, _values: Any, context: Any, _many: bool) -> None:
        if span := running.pop(context, None):
            span.end()

    @sa.event.listens_for(engine, "handle_error")
    def failed(context: sa.engine.ExceptionContext) -> None:
        statement = context.execution_context
        if statement is not None and (span := running.pop(statement, None)):
            span.set_status(Status(StatusCode.ERROR, type(context.original_exception).__name__))
            span.end()


def _asked_for(environ: Mapping[str, str]) -> bool:
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    named = environ.get("OTEL_TRACES_EXPORTER")
    if named:
        return named != "none"
    return any(
        environ.get(variable)
        for variable in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    )


def _exporter(environ: Mapping[str, str]) -> "SpanExporter | None":
    """None, with a warning, where there is none such."""
    named = environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if named not in ("otlp", "console"):
        log.warning(
            "OTEL_TRACES_EXPORTER is %s, so there are no traces; it may be otlp, console or none", named
        )
        return None
    try:
        # Each part of the extra, so that one that is missing is noticed here.
        import opentelemetry.instrumentation.fastapi  # noqa: F401, PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415
    except ModuleNotFoundError as error:
        log.warning("%s (%s is missing)", _INSTALL, error.name)
        return None
    return ConsoleSpanExporter() if named == "console" else OTLPSpanExporter()
