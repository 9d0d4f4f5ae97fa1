"""What the local runner settles before any process starts."""

import pytest

from components.core.errors import ConfigError
from pipelines.config import find_use_case, load_config
from pipelines.display import QuietDisplay
from pipelines.local import RunOptions, run_training


def test_a_part_that_no_run_prepared_is_refused_and_nothing_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = load_config(find_use_case("credit_risk"))
    with pytest.raises(ConfigError, match="no run has the outputs of ingest, schema, which this part takes; run without --from first"):
        run_training(config, RunOptions(first="transform"), QuietDisplay(None))
    assert list(tmp_path.iterdir()) == []
