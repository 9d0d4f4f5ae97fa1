"""The logins of a demonstration: a trainer, an approver and an auditor of the console, and the admin who made them."""

import os
import secrets
from pathlib import Path

from components.core.errors import ServingError
from pipelines.demo.place import MODEL
from pipelines.demo.visitor import Visitor

TRAINER, APPROVER, AUDITOR, ADMIN = "trainer", "approver", "auditor", "admin"
LOGINS_FILE = "logins.txt"
_EDITORS = (TRAINER, APPROVER)


def admit(address: str, admin_password: str, folder: Path) -> dict[str, Visitor]:
    """Makes the three logins by MLflow's API; trainer and approver may edit the model, the auditor reads.

    Args:
        address: of the console.
        admin_password: of MLflow's first admin.
        folder: where the passwords are written, for its owner alone.

    Raises:
        ServingError: MLflow refuses.
    """
    admin = Visitor(address, ADMIN, admin_password)
    passwords = {login: secrets.token_urlsafe(12) for login in (TRAINER, APPROVER, AUDITOR)}
    for login, password in passwords.items():
        _must(admin, "/api/2.0/mlflow/users/create", {"username": login, "password": password})
    for login in _EDITORS:
        told = {"username": login, "resource_type": "registered_model", "resource_id": MODEL, "permission": "EDIT"}
        _must(admin, "/api/3.0/mlflow/users/permissions/grant", told)
    _write_logins(folder / LOGINS_FILE, {ADMIN: admin_password, **passwords})
    return {ADMIN: admin, **{login: Visitor(address, login, password) for login, password in passwords.items()}}


def _must(admin: Visitor, path: str, body: dict[str, str]) -> None:
    code, message = admin.api("POST", path, body)
    if code != 200:
        raise ServingError(f"MLflow answers {path} with {code}: {message}")


def _write_logins(path: Path, passwords: dict[str, str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{login}\t{password}\n" for login, password in passwords.items())
