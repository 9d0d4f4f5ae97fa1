"""The benches are programs that lie side by side; their tests import them as they import each other."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def bench_modules():
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    yield folder
    sys.path.remove(folder)
