"""A home with a small registry, keys and a ledger, and a browser-like client of the console over it."""

import dataclasses
import datetime
import re
import shutil
import urllib.parse
from pathlib import Path
from typing import Any

import requests

from components.core.approval import ApprovalRule
from components.core.contracts import AuditSpec, TrackingSpec
from components.core.files import tree_digest
from components.core.ledger_store import LedgerStore
from components.core.measurements import (
    AuditReport,
    BucketReport,
    CompileReport,
    DecisionChange,
    Gate,
    MetricValue,
    ParityReport,
    SliceReport,
)
from components.core.model_package import Package
from components.core.registry import AUTHOR_TAG, Registry
from components.core.signing import PrivateKey, PublicKey, PublicKeys
from components.core.tracking import StageRun
from infra.console.first_start import FOLDER, prepare
from infra.console.settings import ConsoleSettings, ModelSettings

NAME = "credit-risk"
PASSWORD = "a-long-password"
ADMIN_PASSWORD = "the-admin-password"
EVIL = "<script>alert('card')</script>"
CARD = (
    f"# Card\n\n{EVIL} [link](javascript:alert(1)) ![image](http://evil.example/x.png)\n\n| key | value |\n|---|---:|\n| a | &lt;b&gt; |\n"
)


def write_saved_model(folder: Path, *, text: str = "weights") -> Path:
    """A SavedModel with the signature that the registry looks for, and no graph."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    signature = model.meta_graphs.add().signature_def["serving_raw"]
    signature.inputs["Amount"].dtype = 1
    signature.outputs["scores"].dtype = 1
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    (folder / "variables").write_text(text)
    return folder


def audit_of(digest: str, *, passed: bool = True) -> AuditReport:
    """An audit of these bytes; one gate fails where it did not pass."""

    def value(number: float) -> MetricValue:
        return MetricValue(value=number, lower=number - 0.02, upper=number + 0.02)

    auc = 0.85 if passed else 0.55
    status: Any = "passed" if passed else "failed"
    gates = (
        Gate(
            name="floor/auc", status=status, value=auc, limit=0.8, detail="auc on the eval split", remedy="" if passed else "train longer"
        ),
        *(Gate(name=name, status="passed", value=0.0, limit=1e-5) for name in ("parity", "xla_numerics", "service_level")),
    )
    slices = tuple(
        SliceReport(key="Home", value=name, size=size, positives=size // 4, judged=size >= 100, metrics={"auc": value(auc - 0.01)})
        for name, size in (("owner", 400), (EVIL, 120), ("(missing)", 3))
    )
    return AuditReport(
        framework="keras",
        digest=digest,
        blessed=passed,
        size=523,
        positives=130,
        gates=gates,
        metrics={"auc": value(auc), "binary_crossentropy": value(0.4)},
        slices=slices,
        decision_changes=(DecisionChange(key="", value="", size=523, to_positive=7, to_negative=2),),
    )


def compile_of(digest: str) -> CompileReport:
    bucket = BucketReport(
        batch=1,
        calls=100,
        plain_p50_ms=1.0,
        plain_p99_ms=2.0,
        xla_p50_ms=0.9,
        xla_p99_ms=1.8,
        compile_s=0.5,
        faster="xla",
        within_slo=True,
        largest_absolute_difference=1e-7,
        fusions=3,
        memory_bytes=1000,
        flops=2000,
    )
    return CompileReport(
        framework="keras",
        compiled=True,
        tree_digest=digest,
        size_bytes=123_456,
        buckets=(bucket,),
        xla_tolerance=1e-5,
        slo_p99_ms=50.0,
        xla_numerics_passed=True,
        slo_passed=True,
        plain_without_xla_passed=True,
        compilations=1,
        machine="a test",
    )


@dataclasses.dataclass(frozen=True)
class Home:
    """A home with its registry, keys and ledger.

    Attributes:
        service: the key that vouches for logins.
        other: a personal key, enrolled for `cleo`.
    """

    folder: Path
    settings: ConsoleSettings
    service: PrivateKey
    other: PrivateKey

    @property
    def registry(self) -> Registry:
        return Registry(self.settings.tracking)

    @property
    def store(self) -> LedgerStore:
        return LedgerStore(self.settings.ledger_url)

    @property
    def keys(self) -> PublicKeys:
        return PublicKeys.read(Path(self.settings.public_keys))

    def register(self, name: str = NAME, *, author: str = "tina", passed: bool = True, text: str = "weights") -> str:
        """Registers another candidate; gives its version."""
        work = self.folder / "work" / f"{name}-{text}"
        saved_model = write_saved_model(work / "model", text=text)
        digest = tree_digest(saved_model)
        parity = ParityReport(
            framework="keras",
            passed=True,
            tolerance=1e-5,
            largest_absolute_difference=1e-7,
            label_agreement=1.0,
            eval_rows=523,
            edge_rows=10,
        )
        files = {"audit.json": audit_of(digest, passed=passed), "parity.json": parity, "compile.json": compile_of(digest)}
        for file, content in files.items():
            (work / file).write_text(content.to_json())
        spec = self.settings.tracking.model_copy(update={"experiment": "credit_risk", "use_case": "credit_risk"})
        with StageRun(spec, "train-keras", tags={"stage": "keras-trainer", "pipeline_run_id": "run-1", AUTHOR_TAG: author}) as run:
            run_id = run.run_id
        package = Package(
            framework="keras",
            saved_model=saved_model,
            digest=digest,
            training_run_id=run_id,
            native_model_id=None,
            measurements=tuple(work / file for file in files),
            tags={},
        )
        registry = Registry(spec)
        version = registry.register(name, package, stage_tags={"stage": "keras-registrar", "pipeline_run_id": "run-1"})
        registry.annotate(version, tags={}, description=CARD)
        return version.version


def make_home(folder: Path, empty_store: Path, *, rule: ApprovalRule | None = None) -> Home:
    """A home without candidates."""
    folder.mkdir(parents=True)
    shutil.copyfile(empty_store, folder / "mlflow.db")
    (folder / FOLDER).mkdir(mode=0o700)
    admin, service, other = (PrivateKey.generate() for _ in range(3))
    at = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)).isoformat(timespec="microseconds")
    entries = [
        PublicKey(public=key.public, owner=owner, role=role, enrolled_by=admin.key_id, enrolled_at=at).signed_by(admin)  # type: ignore[arg-type]
        for key, owner, role in ((admin, "boss", "admin"), (service, "console", "service"), (other, "cleo", "person"))
    ]
    PublicKeys(entries).write(folder / "public_keys.json")
    service.write(folder / FOLDER / "service-key.pem")
    model = ModelSettings(
        use_case="credit_risk",
        rule=rule or ApprovalRule(),
        audit=AuditSpec(floors={"auc": 0.8}, slice_floors={"auc": 0.6}),
        p99_ms=50.0,
        max_batch=64,
    )
    settings = ConsoleSettings(
        ledger_url=f"sqlite:///{folder / 'ledger.db'}",
        public_keys=str(folder / "public_keys.json"),
        service_key=str(folder / FOLDER / "service-key.pem"),
        tracking_uri=f"sqlite:///{folder / 'mlflow.db'}",
        artifact_root=str(folder / "mlflow-artifacts"),
        metadata_store=str(folder / "metadata.db"),
        models={NAME: model},
    )
    prepare(folder, settings, chosen_password=ADMIN_PASSWORD)
    return Home(folder, settings, service, other)


def empty_tracking(folder: Path) -> TrackingSpec:
    return TrackingSpec(uri=f"sqlite:///{folder / 'mlflow.db'}", artifact_root=str(folder), experiment="none", use_case="none")


@dataclasses.dataclass
class Client:
    """A person's browser: a login, its own cookies, forms filled from the page that shows them."""

    address: str
    login: str
    password: str = PASSWORD

    def __post_init__(self) -> None:
        self.http = requests.Session()
        self.http.trust_env = False
        self.http.auth = (self.login, self.password)

    def get(self, path: str) -> requests.Response:
        return self.http.get(self.address + path, allow_redirects=False, timeout=60)

    def api(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self.http.request(method, self.address + path, json=body, allow_redirects=False, timeout=60)

    def form(self, path: str, kind: str) -> dict[str, str]:
        """The hidden fields of the form for one decision; empty where the page shows none."""
        page = self.get(path).text
        found = re.search(rf'<form class="act {kind}".*?</form>', page, re.DOTALL)
        return dict(re.findall(r'name="(\w+)" value="([^"]*)"', found[0])) if found else {}

    def send(self, path: str, fields: dict[str, str], **headers: str) -> requests.Response:
        """Sends a form as the page of this server would."""
        told = {"Origin": self.address, **headers}
        body = urllib.parse.urlencode(fields)
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.http.post(self.address + path, data=body, headers={**kind, **told}, allow_redirects=False, timeout=60)

    def decide(self, path: str, kind: str, reason: str = "") -> requests.Response:
        """Opens the page and sends its form."""
        return self.send(path, {**self.form(path, kind), "reason": reason})
