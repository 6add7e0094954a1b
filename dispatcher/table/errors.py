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


class ForeignFile(TableError):
    """Another program wrote to the table: its rows have no storage keys, or are in another order."""

    def __init__(self, uri: str, path: str, version: int) -> None:
        self.uri = uri
        self.path = path
        self.version = version
        super().__init__(
            f"the file {path} of {uri} was written by another program, and cannot be merged with others. Others may"
            f" read the table, not write to it or optimise it: restore the version before that, then append by"
            f" StateTable what the file adds (version {version} was read)"
        )


class TableMismatch(TableError):
    """The table and the program would not agree on its rows; `what` says on which part of them."""

    def __init__(
        self,
        uri: str,
        what: str,
        *,
        ours: str,
        theirs: str,
        advice: str = "use the table's own, or write to another table",
    ) -> None:
        self.uri = uri
        self.what = what
        self.ours = ours
        self.theirs = theirs
        super().__init__(f"the table {uri} differs in {what}: {ours} here, {theirs} in the table; {advice}")


class MissingKeyColumns(TableError):
    """Rows to delete by without all columns of the key."""

    def __init__(self, uri: str, names: tuple[str, ...], needed: tuple[str, ...]) -> None:
        self.uri = uri
        self.names = names
        self.needed = needed
        super().__init__(
            f"the rows have no column {', '.join(names)}, and {uri} deletes by whole keys: give it rows with"
            f" {', '.join(needed)}"
        )


class ConcurrentCommit(TableError):
    """Another writer's commit or a vacuum came between; nothing of `what` is visible."""

    def __init__(self, uri: str, what: str, reason: str) -> None:
        self.uri = uri
        self.what = what
        self.reason = reason
        super().__init__(f"{what} was not committed to {uri}: {reason}")


class NotCommitted(TableError):
    """Files or the log could not be written, and no other writer is the reason; nothing of `what` is visible."""

    def __init__(self, uri: str, what: str, reason: str, again: str) -> None:
        self.uri = uri
        self.what = what
        self.reason = reason
        super().__init__(
            f"{what} was not committed to {uri}: {reason}; see whether this user may write there, and whether there"
            f" is space, then {again}"
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


class UnusableBatch(TableError):
    """An app id and a batch id by which a batch cannot be told from others."""

    def __init__(self, uri: str, app_id: object, batch_id: object, reason: str) -> None:
        self.uri = uri
        self.app_id = app_id
        self.batch_id = batch_id
        super().__init__(f"app_id {app_id!r} with batch_id {batch_id!r} is no batch for {uri}: {reason}")


class UnknownColumns(TableError):
    """`what` says what the columns were named for."""

    def __init__(self, uri: str, what: str, names: tuple[str, ...], known: tuple[str, ...]) -> None:
        self.uri = uri
        self.names = names
        self.known = known
        super().__init__(
            f"{', '.join(names)} cannot be {what} of {uri}; leave them out, or name some of {', '.join(known)}"
        )


class RepeatedKey(TableError):
    """Two changes of one key in a commit, of which neither is the later one."""

    def __init__(self, uri: str, key: dict[str, object]) -> None:
        self.uri = uri
        self.key = key
        shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        super().__init__(
            f"the rows have the key ({shown}) more than once, and {uri} takes one change of a key in a commit;"
            " keep the row that counts, for instance by dropDuplicates or max_by. Nothing was written"
        )


class VersionGone(TableError):
    """`first` and `last` are the versions that are kept."""

    def __init__(self, uri: str, version: int, first: int, last: int) -> None:
        self.uri = uri
        self.version = version
        self.first = first
        self.last = last
        advice = ""
        if version < 0:
            advice = ", or leave the version out for the newest"
        elif version < first:
            advice = "; to keep versions for longer, vacuum with a larger older_than_hours"
        super().__init__(
            f"there is no version {version} of {uri}: versions {first} to {last} are kept; read one of them{advice}"
        )


class BadRetention(TableError):
    def __init__(self, uri: str, hours: object, hours_max: int) -> None:
        self.uri = uri
        self.hours = hours
        self.hours_max = hours_max
        super().__init__(
            f"older_than_hours is a whole number from 0 to {hours_max}, not {hours!r}; {uri} is as it was"
        )
