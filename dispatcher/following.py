"""Reading what is published of a fragment: from etcd, else over HTTP."""

import logging
from contextlib import closing
from threading import Event, Thread

from dispatcher.access import Access
from dispatcher.audience import Audience
from dispatcher.errors import ServiceRefused, ServiceUnreachable, WrongBody
from dispatcher.ledger import Coordination
from dispatcher.service import Service
from dispatcher.standing import Standing
from dispatcher.view import Source
from meta.etcd.client import EtcdClient
from meta.etcd.errors import EtcdError
from meta.etcd.reader import KeyReader, Reading, Unreachable
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import current_key, fragment_prefix, version_key

log = logging.getLogger(__name__)


class Follower:
    """Follows a fragment for its audience, with a round at each change in etcd and every `poll_ms`.

    Until `stop`, or until nobody is left to follow it for.
    """

    def __init__(
        self, service: Service, first: Standing, *, access: Access, poll_ms: int, timeout_ms: int
    ) -> None:
        self._service = service
        self._audience = Audience(first)
        self._fragment = first.fragment
        self._access = access
        self._poll_ms = poll_ms
        self._timeout_ms = timeout_ms
        self._stopped = Event()
        self._reader: KeyReader | None = None
        self._followed: Source | None = Source.ETCD
        self._thread = Thread(target=self._run, name=f"vnodemap follower of {self._fragment}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, standing: Standing) -> bool:
        """Whether it follows for `standing` too, with a round at once, or over HTTP with the next one."""
        if not self._audience.add(standing):
            return False
        if self._reader is not None:
            self._reader.read_now()
        return True

    def remove(self, standing: Standing) -> bool:
        """Whether others remain."""
        return self._audience.remove(standing)

    def stop(self) -> None:
        """Returns when nothing is followed any more; the calls under way may take their `timeout_ms`."""
        self._stopped.set()
        if self._reader is not None:
            self._reader.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as failure:
            log.exception("fragment %s: nothing follows it any more", self._fragment)
            self._audience.fail(failure)

    def _follow(self) -> None:
        while self._audience.listens and not self._stopped.is_set():
            self._ask_coordination()
            coordination = self._audience.coordination
            if coordination is None:
                self._go_without_etcd("etcd: no endpoint is known")
                continue
            try:
                client = self._client(coordination)
            except ValueError as error:
                # The endpoints are what the service says, or what the disk does.
                self._go_without_etcd(f"etcd: {error}")
                continue
            with client:
                self._follow_etcd(client, coordination)

    def _client(self, coordination: Coordination) -> EtcdClient:
        tls, credentials = self._access.etcd_tls, self._access.etcd_credentials
        if coordination.tls and tls is None:
            raise ValueError("it speaks TLS; say in VNODEMAP_ETCD_CA whose certificate to trust")
        if coordination.auth and credentials is None:
            raise ValueError("it wants a login; give VNODEMAP_ETCD_USER and VNODEMAP_ETCD_PASSWORD")
        # Whoever says whom to trust wants TLS, whatever the service or the disk says.
        return EtcdClient(
            coordination.endpoints,
            tls=tls,
            credentials=credentials if coordination.auth else None,
            timeout_ms=self._timeout_ms,
        )

    def _go_without_etcd(self, trouble: str) -> None:
        self._end_round(trouble)
        self._stopped.wait(self._poll_ms / 1000)

    def _follow_etcd(self, client: EtcdClient, coordination: Coordination) -> None:
        """Until `stop`, or until the service names another etcd while this one fails."""
        key = current_key(self._fragment, coordination.root)
        # A publish writes the body beside `current`, in one revision, so nothing more need be read.
        under = fragment_prefix(self._fragment, coordination.root)
        with closing(KeyReader(client, key, under=under, poll_ms=self._poll_ms)) as self._reader:
            # After `_reader` is set: either `stop` sees the reader or this sees the stop.
            if self._stopped.is_set():
                return
            for event in self._reader:
                trouble = self._take_from_etcd(client, coordination.root, event)
                self._end_round(trouble)
                if trouble is not None:
                    self._ask_coordination()
                if self._audience.coordination != coordination:
                    return

    def _end_round(self, etcd_trouble: str | None) -> None:
        if self._stopped.is_set():
            return
        trouble = None if etcd_trouble is None else self._take_from_service(etcd_trouble)
        self._log_change(etcd_trouble, trouble)
        self._audience.round_ended(trouble)

    def _take_from_etcd(self, client: EtcdClient, root: str, event: Reading | Unreachable) -> str | None:
        if isinstance(event, Unreachable):
            return f"etcd: {event.reason}"
        beside = event.beside

        def body_of(version: int) -> bytes:
            key = version_key(self._fragment, version, root)
            if key in beside:
                return beside[key]
            found = client.get(key)
            if found is None:
                raise WrongBody(self._fragment, version, "etcd has none")
            return found.value

        if event.value is None:
            return "etcd: nothing is published"
        try:
            confirmed = self._audience.take(Source.ETCD, event.value.value, body_of)
        except (EtcdError, WrongBody, MalformedPublication) as error:
            return f"etcd: {error}"
        return None if confirmed else "etcd: only a version of the past is published"

    def _take_from_service(self, trouble: str) -> str | None:
        try:
            confirmed = self._audience.take(Source.HTTP, self._service.current(), self._service.body)
        except (ServiceUnreachable, ServiceRefused, WrongBody, MalformedPublication) as error:
            return f"{trouble}; service: {error}"
        return None if confirmed else f"{trouble}; service: it knows only a version of the past"

    def _log_change(self, etcd_trouble: str | None, trouble: str | None) -> None:
        source = Source.ETCD if etcd_trouble is None else Source.HTTP if trouble is None else None
        if source is self._followed:
            return
        self._followed = source
        match source:
            case Source.ETCD:
                log.info("fragment %s: followed through etcd", self._fragment)
            case Source.HTTP:
                log.warning("fragment %s: followed over HTTP (%s)", self._fragment, etcd_trouble)
            case _:
                log.warning(
                    "fragment %s: not followed, going on by what is known (%s)", self._fragment, trouble
                )

    def _ask_coordination(self) -> None:
        try:
            self._audience.coordinated(self._service.coordination())
        except (ServiceUnreachable, ServiceRefused):
            # It stays what it was; a service that is away is told by the round that follows.
            return
