"""One console over a small registry for all tests of this folder; the tests take a model of their own each."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.core.registry import Registry
from infra.console.first_start import prepare
from infra.ui_server import serve_ui
from tests.integration.console.small_home import ADMIN_PASSWORD, PASSWORD, Client, Home, empty_tracking, make_home

PEOPLE = ("tina", "theo", "anna", "otto", "nora")
"""Trainers, an approver, an auditor, and somebody who may see nothing."""


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow takes seconds to make a store: once is enough."""
    folder = tmp_path_factory.mktemp("empty")
    Registry(empty_tracking(folder), create=True)
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Home:
    return make_home(tmp_path_factory.mktemp("console") / "home", empty_store)


@pytest.fixture(scope="session")
def address(home: Home) -> Iterator[str]:
    files = prepare(home.folder, home.settings, chosen_password=ADMIN_PASSWORD)
    with serve_ui(home.folder, files.environment, port=0) as server:
        admin = Client(server.address, "admin", ADMIN_PASSWORD)
        for person in PEOPLE:
            answer = admin.api("POST", "/api/2.0/mlflow/users/create", {"username": person, "password": PASSWORD})
            assert answer.status_code == 200, answer.text
        yield server.address


@pytest.fixture(scope="session")
def admin(address: str) -> Client:
    return Client(address, "admin", ADMIN_PASSWORD)


@pytest.fixture
def people(address: str) -> dict[str, Client]:
    return {person: Client(address, person) for person in PEOPLE}


@pytest.fixture(scope="session")
def candidate(home: Home, admin: Client) -> Callable[..., str]:
    """Registers a candidate of tina's; gives the address of its page. Trainers and the approver have EDIT, nora has nothing."""
    numbers = itertools.count()
    granted: set[str] = set()

    def make(name: str = "credit-risk", *, passed: bool = True, author: str = "tina") -> str:
        version = home.register(name, passed=passed, author=author, text=f"weights {next(numbers)}")
        if name not in granted:
            granted.add(name)
            for person, permission in (("tina", "EDIT"), ("theo", "EDIT"), ("anna", "EDIT"), ("nora", "DENY")):
                told = {"username": person, "resource_type": "registered_model", "resource_id": name, "permission": permission}
                answer = admin.api("POST", "/api/3.0/mlflow/users/permissions/grant", told)
                assert answer.status_code == 200, answer.text
        return f"/tandem/models/{name}/{version}"

    return make
