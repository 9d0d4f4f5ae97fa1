"""Servers that integration tests start for themselves."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

START_LIMIT_S = 60


def _program(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(found[-1]) if found else None)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """SQLAlchemy URL of a PostgreSQL server of this session's own, on a socket in a folder of its own."""
    initdb, server = _program("initdb"), _program("postgres")
    if initdb is None or server is None:
        pytest.skip("no PostgreSQL programs; `apt-get install --no-install-recommends postgresql` (CI does)")
    # The server refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="tandem-pg-") as text:
        folder = Path(text)
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        as_user = user if os.geteuid() == 0 else None
        make = [initdb, "-D", folder / "data", "-U", "tandem", "--auth=trust", "--no-sync"]
        subprocess.run(make, cwd=folder, user=as_user, check=True, capture_output=True)
        with (folder / "log").open("wb") as log:
            options = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", str(folder)]
            process = subprocess.Popen([server, "-D", folder / "data", *options], cwd=folder, user=as_user, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not list(folder.glob(".s.PGSQL.*[0-9]")) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            assert process.poll() is None, (folder / "log").read_text()
            yield f"postgresql+psycopg2://tandem@/postgres?host={folder}"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
