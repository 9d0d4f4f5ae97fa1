"""A real SavedModel of one weight, loaded as the server loads it."""

import pytest

from infra.serving.model_server.servable import Servable
from tests.integration.serving.served import make_model


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """Folder of a version whose weight is 3."""
    folder = tmp_path_factory.mktemp("weight") / "1"
    make_model(folder, 3.0)
    return folder


@pytest.fixture
def servable(saved_model):
    loaded = Servable("m", 1, saved_model)
    yield loaded
    loaded.close()
