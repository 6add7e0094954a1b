"""What state tables refuse."""

from dispatcher.errors import DispatcherError


class TableError(DispatcherError):
    """The base of the family; `uri` is the table's."""

    uri: str


class NotAStateTable(TableError):
    def __init__(self, uri: str, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"{uri} cannot be opened as a state table: {reason}")


class TableMismatch(TableError):
    """The table and the program would not agree on its rows; `what` says on which part of them."""

    def __init__(self, uri: str, what: str, *, ours: str, theirs: str) -> None:
        self.uri = uri
        self.what = what
        self.ours = ours
        self.theirs = theirs
        super().__init__(
            f"the table {uri} differs in {what}: {ours} here, {theirs} in the table;"
            " use the table's own, or write to another table"
        )


class ConcurrentCommit(TableError):
    """Another writer took this transaction's place; nothing of the batch is visible."""

    def __init__(self, uri: str, app_id: str, batch_id: int, reason: str) -> None:
        self.uri = uri
        self.app_id = app_id
        self.batch_id = batch_id
        self.reason = reason
        super().__init__(
            f"batch {batch_id} of {app_id} was not committed to {uri} ({reason}); append it again,"
            f" and see that only one query writes as {app_id}"
        )


class AnotherCheckpoint(TableError):
    """The batch ids went back: Spark repeats only the last batch, so this query is not the one that `committed`."""

    def __init__(self, uri: str, app_id: str, batch_id: int, committed: int) -> None:
        self.uri = uri
        self.app_id = app_id
        self.batch_id = batch_id
        self.committed = committed
        super().__init__(
            f"batch {batch_id} of {app_id} comes after batch {committed} was committed to {uri}: the query runs on"
            " another checkpoint than before. Give a new checkpoint a new app_id, or start from the old checkpoint"
        )


class UnknownColumns(TableError):
    """`what` says what the columns were named for."""

    def __init__(self, uri: str, what: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
        self.uri = uri
        self.names = names
        self.known = known
        super().__init__(f"{', '.join(names)} cannot be {what} of {uri}; there are {', '.join(known)}")
