"""Desks to call tandem from."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.desk import Answer, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="session")
def make_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Desk]]:
    yield lambda name: Desk(tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session")
def credit(make_desk: Callable[[str], Desk]) -> tuple[Desk, Answer]:
    """A desk on which the shipped use case was run once, and what that said."""
    desk = make_desk("credit")
    return desk, desk.call("run", "credit_risk")
