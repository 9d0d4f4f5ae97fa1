"""What the console is told when it starts: one JSON file, named by TANDEM_CONSOLE; `tandem ui` writes it."""

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from components.core.approval import ApprovalRule
from components.core.contracts import AuditSpec, Contract, TrackingSpec
from components.core.errors import ConfigError

SETTINGS_VARIABLE = "TANDEM_CONSOLE"


class ModelSettings(Contract):
    """What pipeline.toml says of one registered model.

    Attributes:
        use_case: name of its folder.
        rule: `[approval]`.
        audit: `[audit]`.
        p99_ms: service level, milliseconds a call.
        max_batch: rows up to which the service level counts.
    """

    use_case: str
    rule: ApprovalRule
    audit: AuditSpec
    p99_ms: float = Field(gt=0)
    max_batch: int = Field(ge=1)


class ConsoleSettings(Contract):
    """Where the console reads and writes.

    Attributes:
        ledger_url: of SQLAlchemy.
        public_keys: file of the enrolled keys.
        service_key: file of the key that vouches for a login; where it is absent nothing can be decided on the pages.
        tracking_uri: of the MLflow store, past this server: `sqlite:///...` or PostgreSQL.
        artifact_root: folder or URI below which MLflow keeps artifacts.
        metadata_store: SQLite file of ML Metadata, for the lineage.
        models: registered name, without `-prod` -> settings.
    """

    ledger_url: str
    public_keys: str
    service_key: str
    tracking_uri: str
    artifact_root: str
    metadata_store: str
    models: dict[str, ModelSettings] = {}

    @property
    def tracking(self) -> TrackingSpec:
        """The MLflow store, to read from."""
        return TrackingSpec(uri=self.tracking_uri, artifact_root=self.artifact_root, experiment="", use_case="")


def read_settings(environment: Mapping[str, str] = os.environ) -> ConsoleSettings:
    """Reads the file that TANDEM_CONSOLE names.

    Raises:
        ConfigError: the variable is not set, or its file is not there or no such settings.
    """
    name = environment.get(SETTINGS_VARIABLE, "")
    if not name:
        raise ConfigError(f"{SETTINGS_VARIABLE} names no settings; start the console by `tandem ui`")
    try:
        return ConsoleSettings.from_json(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        cause = str(error).splitlines()[0]
        raise ConfigError(f"{name}: no settings of the console ({cause}); `tandem ui` writes them anew") from error
