"""A real PgBouncer as it comes, in transaction mode, before a PostgreSQL."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.databases.postgres import PostgresServer
from tests.support.waiting import patient, wait_until

_BINARY = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

needs_pgbouncer = pytest.mark.skipif(_BINARY is None, reason="there is no PgBouncer here")


class PgBouncer:
    """Listens on a Unix socket. Nothing but its mode differs from its defaults, and how few servers it has."""

    def __init__(self, postgres: PostgresServer, *, servers: int = 3) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pgb-"))
        given = conninfo_to_dict(postgres.url_of("postgres"))
        self._user = given["user"]
        # It refuses to run as root
        self._owner = Path(str(given["host"]), ".s.PGSQL.5432").stat().st_uid
        (self.folder / "users.txt").write_text(f'"{self._user}" ""\n')
        self._config = self.folder / "pgbouncer.ini"
        self._config.write_text(
            f"[databases]\n* = host={given['host']} port={given.get('port') or 5432} user={self._user}\n"
            f"[pgbouncer]\npool_mode = transaction\ndefault_pool_size = {servers}\nauth_type = trust\n"
            f"auth_file = {self.folder}/users.txt\nlisten_port = 6432\nunix_socket_dir = {self.folder}\n"
            f"logfile = {self.folder}/log\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def url_of(self, name: str) -> str:
        return f"postgresql://{self._user}@/{name}?host={self.folder}&port=6432"

    def start(self) -> Self:
        assert _BINARY is not None
        user = self._owner if self._owner != os.geteuid() else None
        if user is not None:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, user, -1)
        command = [_BINARY, "-q", str(self._config)]
        self._process = subprocess.Popen(command, user=user, stderr=subprocess.DEVNULL)
        wait_until(self._answers, what="PgBouncer")
        return self

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url_of("postgres"), prepare_threshold=None) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    def remove(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=patient(10))
        shutil.rmtree(self.folder, ignore_errors=True)
