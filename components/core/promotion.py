"""What the stages of a promotion tell each other: frozen descriptions that travel as JSON in parameters and files."""

from typing import Literal

from pydantic import Field

from components.core.approval import ApprovalRule, Evidence, Standing
from components.core.contracts import Contract, Framework
from components.core.ledger import Head, Subject
from components.core.rollout import RolloutRule

CLEARANCE_FILE = "clearance.json"
LOAD_FILE = "load.json"
PROMOTION_FILE = "promotion.json"
DEPLOYMENT_FILE = "deployment.json"
ROLLOUT_FILE = "rollout.json"


class LedgerSpec(Contract):
    """Where a stage finds the ledger and who it signs as.

    Attributes:
        url: of the ledger, without a password.
        public_keys: file of the enrolled keys.
        private_key: file of the key that signs promote, push and rollout steps: an operator's or the service's.
    """

    url: str
    public_keys: str
    private_key: str


class ProductionSpec(Contract):
    """Where production is.

    Attributes:
        serving_root: folder of the model servers, `production` below it.
        base_path: where the model server sees `<serving_root>/production`; empty = there.
        server: its REST address.
        timeout_s: seconds that a version may take to become available.
        min_requests_per_s: of single-row calls, one client, in the load test.
        p99_ms, max_batch: service level of the use case.
    """

    serving_root: str
    base_path: str = ""
    server: str
    timeout_s: float = Field(gt=0)
    min_requests_per_s: float = Field(gt=0)
    p99_ms: float = Field(gt=0)
    max_batch: int = Field(ge=1)


class Clearance(Contract):
    """That a candidate may be promoted (file `clearance.json`).

    Attributes:
        subject: exact bytes and evidence.
        training_run_id: MLflow run of its training.
        author: who made it, as it was known when decisions were counted; empty where nobody says.
        rule: that was asked for.
        standing: what the ledger said.
        passed: evidence that passed.
        head: of the ledger when it was checked.
    """

    schema_version: Literal[1] = 1
    subject: Subject
    framework: Framework
    training_run_id: str
    author: str
    rule: ApprovalRule
    standing: Standing
    passed: tuple[Evidence, ...]
    head: Head


class LoadBatch(Contract):
    """Calls of one batch size in a fresh process without XLA.

    Attributes:
        signature: that was called.
        batch: rows a call.
        calls: timed calls of the calmest round.
        rounds: how often it was measured until the p99 was within the service level, at most three times.
        p50_ms, p99_ms: milliseconds a call.
        requests_per_s: one caller, one call after the other.
        judged: the service level counts for this batch.
    """

    signature: str
    batch: int
    calls: int
    rounds: int
    p50_ms: float
    p99_ms: float
    requests_per_s: float
    judged: bool


class LoadReport(Contract):
    """The load test before a promotion (file `load.json`).

    Attributes:
        digest: of the bytes that were loaded.
        passed: every score finite, every judged batch within the limits.
        reason: empty, or what did not pass.
        example: the first warm-up row, serialized tf.Example, base64.
        scores: what the model answered to it, one a class.
    """

    schema_version: Literal[1] = 1
    digest: str
    passed: bool
    reason: str
    batches: tuple[LoadBatch, ...]
    p99_limit_ms: float
    min_requests_per_s: float
    machine: str
    example: str
    scores: tuple[float, ...]


class PromotionReport(Contract):
    """What became of a candidate in the registry (file `promotion.json`).

    Attributes:
        name, version: of the production model.
        entry: digest of the ledger's promote entry.
    """

    schema_version: Literal[1] = 1
    subject: Subject
    name: str
    version: str
    entry: str


class DeploymentReport(Contract):
    """What the model server holds (file `deployment.json`).

    Attributes:
        path: folder of the version.
        available_s: seconds from the configuration until the server said AVAILABLE.
        largest_absolute_difference: of the served score to the load test's on the first warm-up row.
        entry: digest of the ledger's push entry.
    """

    schema_version: Literal[1] = 1
    name: str
    version: str
    digest: str
    path: str
    server: str
    available_s: float
    largest_absolute_difference: float
    entry: str


class RolloutReport(Contract):
    """How the rollout began (file `rollout.json`).

    Attributes:
        share: percent of the keys that the version serves now.
        role: `champion` where there was none before.
        entry: digest of the ledger's rollout entry.
    """

    schema_version: Literal[1] = 1
    name: str
    version: str
    share: int
    role: Literal["champion", "canary"]
    rule: RolloutRule
    entry: str
