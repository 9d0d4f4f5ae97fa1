"""Artifact types of our own, beside the standard ones of TFX.

Each is a folder with one JSON file (see `components.core.measurements`). TYPE_NAME is also the import path that Kubeflow uses.
Facts about an artifact go to custom properties: Kubeflow wants PROPERTIES empty.
"""

from tfx.types import artifact


class ParityReport(artifact.Artifact):
    """Exported against native scores: `parity.json`."""

    TYPE_NAME = "components.ParityReport"


class CompileReport(artifact.Artifact):
    """XLA twins, service levels and the tree digest: `compile.json`."""

    TYPE_NAME = "components.CompileReport"


class Predictions(artifact.Artifact):
    """Scores of the eval split, row by row: `predictions.parquet`."""

    TYPE_NAME = "components.Predictions"


class AuditReport(artifact.Artifact):
    """Every gate, metric and slice of one candidate: `audit.json`."""

    TYPE_NAME = "components.AuditReport"


class Registration(artifact.Artifact):
    """The registered model version of one candidate: `registration.json`."""

    TYPE_NAME = "components.Registration"


class PushReport(artifact.Artifact):
    """What was pushed to staging: `push.json`."""

    TYPE_NAME = "components.PushReport"


class Clearance(artifact.Artifact):
    """That a candidate may be promoted, by the ledger and the rule: `clearance.json`."""

    TYPE_NAME = "components.Clearance"


class LoadReport(artifact.Artifact):
    """Latency and rate of the bytes in a fresh process without XLA: `load.json`."""

    TYPE_NAME = "components.LoadReport"


class PromotionReport(artifact.Artifact):
    """The version of the production model: `promotion.json`."""

    TYPE_NAME = "components.PromotionReport"


class DeploymentReport(artifact.Artifact):
    """What the production model server holds: `deployment.json`."""

    TYPE_NAME = "components.DeploymentReport"


class RolloutReport(artifact.Artifact):
    """How the rollout began: `rollout.json`."""

    TYPE_NAME = "components.RolloutReport"
