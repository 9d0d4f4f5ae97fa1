"""The steps of a demonstration, in order. Each does something as a person would, and gives the lines that say what came of it."""

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core.errors import ServingError, StageError
from components.core.files import write_bytes
from infra.console.first_start import FOLDER
from pipelines.demo.desk import DemoDesk
from pipelines.demo.people import ADMIN, APPROVER, AUDITOR, LOGINS_FILE, TRAINER, admit
from pipelines.demo.place import MODEL, STEPS, USE_CASE, Place
from pipelines.demo.traffic import Answers, Callers, total
from pipelines.demo.visitor import Visitor

_KEYS = {"operator": "admin", "console": "service", "router": "service"}
_SERVICE_KEY = f".tandem/{FOLDER}/service-key.pem"
_CALLS_A_LOOK = 200
_ALL = 100
_ROLLOUT_S = 300.0
_FOLLOWED_S = 30.0
_SERVES = r"gRPC 127\.0\.0\.1:(\d+)"


class Story:
    """A demonstration that goes on.

    Attributes:
        steps: title and what it does.
    """

    def __init__(self, place: Place, desk: DemoDesk) -> None:
        self.place, self.desk = place, desk
        self._people: dict[str, Visitor] = {}
        self._callers: Callers | None = None
        self._grpc_port = ""
        self.steps: tuple[tuple[str, Callable[[], list[str]]], ...] = (
            ("train a Keras and a Lightning model on the same data", self._train),
            ("an operator makes keys and enrols the two services", self._keys),
            ("the console: three logins", self._console),
            ("the trainer asks for a promotion, others try to decide", self._request_first),
            ("the approver approves; the operator promotes the first model", self._promote_first),
            ("requests through the router", self._first_traffic),
            ("the second model: requested, approved, rehearsed on logged requests", self._second),
            (f"its rollout in steps of {', '.join(f'{step} %' for step in STEPS)}", self._roll_out),
            ("rollback", self._roll_back),
            ("what nobody may: move production by hand, or change what was decided", self._attempts),
            ("the trail: exported, and checked from the export and the public keys alone", self._verify),
        )

    def _train(self) -> list[str]:
        self.desk.call(f"tandem run {USE_CASE}")
        compared = self.desk.call("tandem compare")
        lines = []
        for candidate in compared["candidates"]:
            name, interval = f"{candidate['model']}/{candidate['version']}", candidate["intervals"]["auc"]
            bounds = "" if interval["lower"] is None else f", {interval['lower']:.4f} to {interval['upper']:.4f}"
            lines.append(f"{name} ({candidate['framework']}): AUC {candidate['metrics']['auc']:.4f}{bounds}")
        return lines

    def _keys(self) -> list[str]:
        (self.place.folder / ".tandem" / FOLDER).mkdir(mode=0o700, exist_ok=True)
        files = {"operator": "operator.pem", "console": _SERVICE_KEY, "router": "router.pem"}
        for file in files.values():
            self.desk.call(f"tandem keys new --key {file}")
        found = self.desk.call("tandem keys init operator --key operator.pem")["keys"]
        for owner in ("console", "router"):
            found = self.desk.call(f"tandem keys enrol {owner} {files[owner]}.pub --role service --key operator.pem")["keys"]
        return [f"{key['owner']}: {key['role']}, key {key['key_id']}" for key in found]

    def _console(self) -> list[str]:
        address = self.desk.serve("tandem ui --port 0 --no-browser", r"http://127\.0\.0\.1:\d+")[0]
        password = (self.place.folder / ".tandem" / FOLDER / "admin-password").read_text(encoding="utf-8").strip()
        self._people = admit(address, password, self.place.folder)
        return [f"{address}/tandem/: {TRAINER} and {APPROVER} may edit {MODEL}, {AUDITOR} reads; passwords in {LOGINS_FILE}"]

    def _request_first(self) -> list[str]:
        return [*self._request("1"), *self._refusals("1")]

    def _request(self, version: str) -> list[str]:
        status = self._people[TRAINER].decide(_page(version), "request", "both frameworks were audited")
        return [f"{TRAINER} requested {MODEL}/{version}: {status}"]

    def _refusals(self, version: str) -> list[str]:
        lines = []
        for login in (TRAINER, AUDITOR):
            told = next((line for line in self._people[login].refusals(_page(version)) if line.startswith("Approve")), "")
            if not told:
                raise ServingError(f"the page of {MODEL}/{version} lets {login} approve; it must not")
            lines.append(f"{login} cannot: {told}")
        return lines

    def _approve(self, version: str) -> str:
        status = self._people[APPROVER].decide(_page(version), "approve", "metrics, slices and parity hold")
        return f"{APPROVER} approved {MODEL}/{version}: {status}"

    def _promote_first(self) -> list[str]:
        lines = [self._approve("1")]
        serve = f"tandem serve --rest-port {self.place.server_port} --grpc-port 0 --poll 0.5"
        self._grpc_port = self.desk.serve(serve, _SERVES)[1]
        lines.append(f"a model server of TensorFlow's C++ loader: {self.place.server}")
        return [*lines, *self._promote("1")]

    def _promote(self, version: str) -> list[str]:
        split = self.desk.call(f"tandem promote {MODEL}/{version} --key operator.pem")["traffic"]
        return _split_lines(split)

    def _first_traffic(self) -> list[str]:
        route = (
            f"tandem route --key router.pem --backend {self.place.server} --grpc-backend 127.0.0.1:{self._grpc_port} "
            "--port 0 --grpc-port 0 --log-dir requests --log-share 1"
        )
        router = self.desk.serve(route, r"http://127\.0\.0\.1:\d+")[0]
        from pipelines.config import find_use_case, load_config

        toml = load_config(find_use_case(str(self.place.use_case))).toml
        features = {"integer": toml.features.integer, "category": toml.features.category}
        self._callers = Callers(router, model=MODEL, data=self.place.use_case / "data" / "credit.csv", features=features)
        return [f"the router: {router}", _answers_line(self._callers.ask(_CALLS_A_LOOK))]

    def _asking(self) -> Callers:
        if self._callers is None:
            raise StageError("nobody calls the router yet")
        return self._callers

    def _second(self) -> list[str]:
        lines = [*self._request("2"), self._approve("2")]
        found = self._rehearse()
        lines.append(
            f"rehearsed on {found['sides']['candidate']['requests']} logged requests: largest difference of scores "
            f"{found['largest_absolute_difference']:.3f}, {found['label_changes']} rows with another label, "
            f"guards: {found['complaint'] or 'none complains'}, the way back works: {'yes' if found['rollback'] else 'no'}"
        )
        return lines

    def _rehearse(self) -> Any:
        """The router writes its log in parts; the first is there some seconds after the requests."""
        deadline = time.monotonic() + 60
        while not list((self.place.folder / "requests").rglob("*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.5)
        return self.desk.call(f"tandem rehearse {MODEL}/2 --log-dir requests", codes=(0, 3))

    def _roll_out(self) -> list[str]:
        lines = self._promote("2")
        callers, deadline = self._asking(), time.monotonic() + _ROLLOUT_S
        self._await_share("2", STEPS[0])
        seen: dict[str, list[Answers]] = {}
        before = 0
        while before < _ALL:
            before = callers.share_of(MODEL, "2")
            answers = callers.ask(_CALLS_A_LOOK)
            after = callers.share_of(MODEL, "2")
            seen.setdefault(f"at {before} %" if before == after else f"while {before} % became {after} %", []).append(answers)
            if time.monotonic() > deadline:
                raise ServingError(f"the rollout of {MODEL} did not reach 100 % within {_ROLLOUT_S:.0f} s; see {self.desk.log}")
        for when, parts in seen.items():
            found = total(parts)
            answered = f"{found.share_of('2'):.1f} % answered by version 2"
            lines.append(f"{when}: {found.asked} requests, {answered}, {found.failed} failed")
        return lines

    def _roll_back(self) -> list[str]:
        reason = "complaints from branch 7"
        split = self.desk.call(f"tandem rollback {MODEL} --key operator.pem --reason {shlex.quote(reason)}")["traffic"]
        self._await_share("1", _ALL)
        return [*_split_lines(split), _answers_line(self._asking().ask(_CALLS_A_LOOK))]

    def _await_share(self, version: str, share: int) -> None:
        """The router follows the ledger within a second."""
        callers, deadline = self._asking(), time.monotonic() + _FOLLOWED_S
        while callers.share_of(MODEL, version) < share:
            if time.monotonic() > deadline:
                raise ServingError(f"the router did not follow the ledger within {_FOLLOWED_S:.0f} s; see {self.desk.log}")
            time.sleep(0.1)

    def _attempts(self) -> list[str]:
        lines = []
        code, message = self._people[ADMIN].api(
            "POST", "/api/2.0/mlflow/registered-models/alias", {"name": f"{MODEL}-prod", "alias": "champion", "version": "2"}
        )
        if code == 200:
            raise ServingError("MLflow's API moved the production alias; it must not")
        lines.append(f"the admin moves the alias champion by MLflow's API: {code}, {message}")
        self.desk.call("tandem ledger --export ledger.jsonl --head head.json")
        forged = self.place.folder / "forged.jsonl"
        write_bytes(forged, _forge(self.place.folder / "ledger.jsonl"))
        found = self.desk.call("tandem verify forged.jsonl --head head.json", codes=(1,))
        lines.append(f"a copy of the ledger with another approver in it: {found['problem']}")
        return lines

    def _verify(self) -> list[str]:
        found = self.desk.call("tandem verify ledger.jsonl --head head.json")
        return [f"{found['entries']} entries hold, root key {found['root']}"]


def _forge(export: Path) -> bytes:
    """The export with another name in the first approval."""
    lines = [json.loads(line) for line in export.read_text(encoding="utf-8").splitlines()]
    statement = next(line["statement"] for line in lines if line["statement"]["kind"] == "approve")
    statement["actor"] = AUDITOR
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def _page(version: str) -> str:
    return f"{MODEL}/{version}"


def _split_lines(split: Any) -> list[str]:
    lines = []
    for label, share in (("champion", 100 - split["share"]), ("canary", split["share"])):
        version = split[label]
        if version is not None:
            made_from = f"{version['subject']['model']}/{version['subject']['version']}"
            lines.append(f"{label}: {MODEL}-prod version {version['version']}, made from {made_from}, {share} % of the request keys")
    return lines


def _answers_line(found: Answers) -> str:
    answered = ", ".join(f"version {version} {count}" for version, count in found.by_version.items())
    return f"{found.asked} requests: {answered}; {found.failed} failed"
