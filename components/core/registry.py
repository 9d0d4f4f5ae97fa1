"""The model registry: final SavedModels as versions of `<name>`, and what is asked about them. MLflow keeps it.

A version's source is a LoggedModel with a flavor of our own: the SavedModel's bytes as they are in `saved_model/`, the measurements in
`measurements/`, and an `MLmodel` that `mlflow.pyfunc` and `mlflow.tensorflow` load. Tags and aliases mirror; they decide nothing.
"""

import contextlib
import dataclasses
import functools
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from components.core.contracts import Champion, TrackingSpec
from components.core.dossier import evidence_digest
from components.core.errors import RegistryError, StoreError
from components.core.model_package import MEASUREMENTS_FOLDER, SAVED_MODEL_FOLDER, Package, require_digest, write_surroundings
from components.core.store_address import require_reachable, sqlite_path, store_exists
from components.core.tracking import StageRun, experiment_id

CHAMPION_ALIAS = "champion"
AUTHOR_TAG = "tandem.author"
"""Of an MLflow run: the login that made it, set by the console's server alone."""
EVIDENCE_TAG = "evidence_digest"
DESCRIPTION_LIMIT = 5000
"""Characters that a registry on PostgreSQL keeps of a description."""

_REFERENCE = re.compile(r"(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>[1-9][0-9]*))?")
_Result = TypeVar("_Result", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class ModelVersion:
    """One version of a registered model.

    Attributes:
        name, version: of the registry; the version is a whole number as text.
        run_id: MLflow run of the training, empty when not recorded.
        source: URI of the package.
        tags: version tags; `tree_digest` is the identity of the SavedModel.
        aliases: aliases that point here now.
        description: the model card, Markdown.
    """

    name: str
    version: str
    run_id: str
    source: str
    tags: Mapping[str, str]
    aliases: tuple[str, ...]
    description: str

    @property
    def digest(self) -> str:
        """Tree digest that the tags claim; empty when there is none."""
        return self.tags.get("tree_digest", "")


@contextlib.contextmanager
def explained(uri: str) -> Iterator[None]:
    """Turns MLflow's and the file system's faults into one line that says what to do."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        cause = str(error).splitlines()[0][:300]
        raise StoreError(
            f"MLflow store {uri}: {cause}; see that it can be reached and written (`tandem doctor`), then run again"
        ) from error


def _with_store(method: _Result) -> _Result:
    """Methods of `Registry` that talk to the store raise StoreError."""

    @functools.wraps(method)
    def wrapped(self: "Registry", *args: Any, **kwargs: Any) -> Any:
        with explained(self.tracking.uri):
            return method(self, *args, **kwargs)

    return wrapped  # type: ignore[return-value]  # the signature is the method's own


class Registry:
    """The registry behind one tracking URI.

    Attributes:
        tracking: where it lies.
        client: MLflow's client, for what this class does not offer.

    Raises:
        StoreError: there is no store yet and `create` is False, or nobody answers.
    """

    def __init__(self, tracking: TrackingSpec, *, create: bool = False) -> None:
        if not create and not store_exists(tracking):
            raise StoreError(f"there is no MLflow store at {tracking.uri} yet; `tandem run` makes it, or correct the base directory")
        require_reachable(tracking.uri)
        self.tracking = tracking
        with explained(tracking.uri):
            from mlflow.tracking import MlflowClient

            path = sqlite_path(tracking.uri)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self.client: Any = MlflowClient(tracking_uri=tracking.uri, registry_uri=tracking.uri)
            self.client.search_registered_models(max_results=1)

    @_with_store
    def names(self) -> list[str]:
        """Names of all registered models, sorted."""
        return sorted(model.name for model in pages(self.client.search_registered_models))

    @_with_store
    def versions(self, name: str) -> list[ModelVersion]:
        """All versions of `name`, oldest first.

        Raises:
            RegistryError: no such model.
        """
        aliases = self._aliases(name)
        found = pages(functools.partial(self.client.search_model_versions, equals("name", name)))
        return sorted((_model_version(version, aliases) for version in found), key=lambda version: int(version.version))

    def resolve(self, reference: str) -> ModelVersion:
        """The version that `name` (the newest), `name@alias` or `name/version` means.

        Raises:
            RegistryError: no such model, alias or version; the message names what there is.
            StoreError: the store cannot be read.
        """
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise RegistryError(f"{reference!r} is no model reference; write `name`, `name@alias` or `name/version`")
        name, alias, number = match.group("name", "alias", "version")
        versions = self.versions(name)
        if not versions:
            raise RegistryError(f"model {name!r} has no version yet; `tandem run` registers one")
        if alias is not None:
            matching = [version for version in versions if alias in version.aliases]
            known = sorted({known for version in versions for known in version.aliases})
            if not matching:
                raise RegistryError(f"model {name!r} has no alias {alias!r}; its aliases: {', '.join(known) or 'none'}")
            return matching[0]
        if number is None:
            return versions[-1]
        matching = [version for version in versions if version.version == number]
        if not matching:
            raise RegistryError(f"model {name!r} has no version {number}; its versions: {', '.join(v.version for v in versions)}")
        return matching[0]

    @_with_store
    def local_saved_model(self, version: ModelVersion, folder: Path | None = None) -> Path:
        """Folder of the version's SavedModel on this machine, its bytes checked against `tree_digest`.

        Where the store keeps artifacts in local folders that folder itself is given: read it, do not write to it. Otherwise the SavedModel
        is downloaded below `folder` (a temporary folder when None).

        Raises:
            RegistryError: the bytes are not those that were registered.
        """
        path = self._download(version, SAVED_MODEL_FOLDER, folder)
        require_digest(path, version.digest, f"the SavedModel of {version.name}/{version.version} at {path}")
        return path

    @_with_store
    def local_measurements(self, version: ModelVersion, folder: Path | None = None) -> Path:
        """Folder of the version's measurements on this machine, as `local_saved_model` gives the SavedModel; empty when it has none."""
        return self._download(version, MEASUREMENTS_FOLDER, folder)

    @_with_store
    def author_of(self, run_id: str) -> tuple[str, bool]:
        """Who made a training run, and whether the console's server vouches for it; empty where nobody says.

        Without a server in between the name is the run's own word, which its maker can choose: it can only exclude somebody from deciding.
        """
        if not run_id:
            return "", False
        tags = self.client.get_run(run_id).data.tags
        vouched = tags.get(AUTHOR_TAG, "")
        return (vouched, True) if vouched else (tags.get("mlflow.user", ""), False)

    def champion(self, name: str, folder: Path | None = None) -> Champion | None:
        """The version of `name` (e.g. `credit-risk-prod`) with the alias `champion`; None when nothing was promoted yet.

        Raises:
            RegistryError: its bytes are not those that were registered.
            StoreError: the store cannot be read.
        """
        if name not in self.names():
            return None
        for version in self.versions(name):
            if CHAMPION_ALIAS in version.aliases:
                path = self.local_saved_model(version, folder)
                return Champion(name=name, version=version.version, digest=version.digest, path=str(path))
        return None

    @_with_store
    def find(self, name: str, *, digest: str, training_run_id: str, evidence: str = "") -> ModelVersion | None:
        """The oldest version with this digest from this training run and, where it is given, with this evidence digest."""
        if name not in self.names():
            return None
        for version in self.versions(name):
            same = version.digest == digest and version.run_id == training_run_id
            if same and evidence in ("", version.tags.get(EVIDENCE_TAG)):
                return version
        return None

    @_with_store
    def register(self, name: str, package: Package, *, stage_tags: Mapping[str, str]) -> ModelVersion:
        """Makes `package` a version of `name`, or gives the one that is there: same digest, training run and evidence, same version.

        A package for production brings no evidence of its own: there digest and training run are enough.

        Two processes that register the same package at once end with one version. A failure leaves no registered model without a version.

        Args:
            name: registered model.
            package: what is registered.
            stage_tags: of the MLflow run `register-<framework>`, which keeps the LoggedModel (a second one in the training run would be
                shown with the training's metrics).

        Raises:
            RegistryError: the bytes are not those of `package.digest`, before or after the copy.
            StoreError: the store cannot be written.
        """
        require_digest(package.saved_model, package.digest, f"the SavedModel in {package.saved_model}")
        dossier = package.dossier
        evidence = evidence_digest(dossier.files) if dossier else ""
        there = self.find(name, digest=package.digest, training_run_id=package.training_run_id, evidence=evidence)
        if there is not None:
            return there
        tags = {**stage_tags, "framework": package.framework, "training_run_id": package.training_run_id}
        with StageRun(self.tracking, f"register-{package.framework}", tags=tags) as run:
            logged = self._log(package, run.run_id)
            own = {"register_run_id": run.run_id, **({EVIDENCE_TAG: evidence} if evidence else {})}
            made = self._create_version(name, package, logged, own=own)
            oldest = self.find(name, digest=package.digest, training_run_id=package.training_run_id, evidence=evidence) or made
            if oldest.version == made.version:
                self._link(made, package, logged.model_id, run)
            else:
                self.client.delete_model_version(name, made.version)
                self.client.delete_logged_model(logged.model_id)
        return oldest

    @_with_store
    def annotate(self, version: ModelVersion, *, tags: Mapping[str, str], description: str | None = None) -> None:
        """Sets tags and, when given, the description (at most 5,000 characters) of a version."""
        for key, value in tags.items():
            self.client.set_model_version_tag(version.name, version.version, key, value)
        if description is not None:
            self.client.update_model_version(version.name, version.version, description[:DESCRIPTION_LIMIT])

    @_with_store
    def set_aliases(self, name: str, aliases: Mapping[str, str | None]) -> None:
        """Points aliases of `name` to versions; None takes an alias away."""
        for alias, version in aliases.items():
            if version is None:
                self.client.delete_registered_model_alias(name, alias)
            else:
                self.client.set_registered_model_alias(name, alias, version)

    def _download(self, version: ModelVersion, part: str, folder: Path | None) -> Path:
        import mlflow.artifacts

        uri = self.client.get_model_version_download_uri(version.name, version.version)
        target = str(folder) if folder is not None else None
        where = f"{uri.rstrip('/')}/{part}"
        return Path(mlflow.artifacts.download_artifacts(artifact_uri=where, dst_path=target, tracking_uri=self.tracking.uri))

    def _aliases(self, name: str) -> dict[str, str]:
        """Alias -> version; only the registered model tells them."""
        from mlflow.exceptions import MlflowException

        try:
            aliases: dict[str, str] = dict(self.client.get_registered_model(name).aliases)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            raise RegistryError(f"no model {name!r} in the registry; its models: {', '.join(self.names()) or 'none'}") from error
        return {alias: str(version) for alias, version in aliases.items()}

    def _log(self, package: Package, run_id: str) -> Any:
        """Logs the package as a LoggedModel of run `run_id`: the bytes first, `MLmodel` last."""
        from mlflow.entities import LoggedModelInput, LoggedModelOutput

        logged = self.client.create_logged_model(
            experiment_id(self.tracking),
            name=f"served-{package.framework}",
            source_run_id=run_id,
            tags={"tree_digest": package.digest, "framework": package.framework, "training_run_id": package.training_run_id},
            model_type="saved-model",
        )
        try:
            self.client.log_model_artifacts(logged.model_id, str(package.saved_model), SAVED_MODEL_FOLDER)
            with tempfile.TemporaryDirectory(prefix="tandem-package-") as folder:
                write_surroundings(Path(folder), package, model_id=logged.model_id, run_id=run_id)
                self.client.log_model_artifacts(logged.model_id, folder)
        except BaseException:
            self.client.finalize_logged_model(logged.model_id, "FAILED")
            raise
        self.client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
        if package.native_model_id is not None:
            self.client.log_inputs(run_id, models=[LoggedModelInput(package.native_model_id)])
        return self.client.finalize_logged_model(logged.model_id, "READY")

    def _create_version(self, name: str, package: Package, logged: Any, *, own: Mapping[str, str]) -> ModelVersion:
        from mlflow.exceptions import MlflowException

        made_model = True
        try:
            self.client.create_registered_model(name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            made_model = False
        always = {"framework": package.framework, "tree_digest": package.digest, "use_case": self.tracking.use_case}
        native = {"native_model_id": package.native_model_id} if package.native_model_id else {}
        try:
            made = self.client.create_model_version(
                name,
                logged.artifact_location,
                run_id=package.training_run_id,
                tags={**package.tags, **always, **own, **native},
                model_id=logged.model_id,
            )
            version = _model_version(made, {})
            self.local_saved_model(version)
        except BaseException:
            self._undo(name, logged.model_id, made_model)
            raise
        return version

    def _undo(self, name: str, model_id: str, made_model: bool) -> None:
        """Removes what a failed registration left: its version and, when this call made it and it is empty, the registered model."""
        left = pages(functools.partial(self.client.search_model_versions, equals("name", name)))
        model = self.client.get_logged_model(model_id)
        for version in left:
            if version.source == model.artifact_location:
                self.client.delete_model_version(name, version.version)
        if made_model and all(version.source == model.artifact_location for version in left):
            self.client.delete_registered_model(name)

    def _link(self, version: ModelVersion, package: Package, model_id: str, run: StageRun) -> None:
        """Lets people walk in the MLflow UI: training run, native model, registering run and version name each other."""
        reference = f"{version.name}/{version.version}"
        run.set_tags({"model_version": reference, "tree_digest": package.digest})
        if not package.linked:
            return
        self.client.set_tag(package.training_run_id, "model_version", reference)
        self.client.set_tag(package.training_run_id, "register_run_id", run.run_id)
        entry = json.dumps([{"name": version.name, "version": version.version}])
        self.client.set_logged_model_tags(model_id, {"mlflow.modelVersions": entry})
        if package.native_model_id is not None:
            self.client.set_logged_model_tags(package.native_model_id, {"served_as": reference, "served_model_id": model_id})


def pages(search: Callable[..., Any]) -> list[Any]:
    """All results of a paged MLflow search."""
    found: list[Any] = []
    token = None
    while True:
        page = search(page_token=token)
        found.extend(page)
        token = page.token
        if not token:
            return found


def equals(key: str, value: str) -> str:
    """A filter of MLflow's search.

    Raises:
        RegistryError: MLflow's filters cannot hold a single quote.
    """
    if "'" in value:
        raise RegistryError(f"{value!r} holds a single quote; names and run ids hold none")
    return f"{key} = '{value}'"


def _model_version(version: Any, aliases: Mapping[str, str]) -> ModelVersion:
    number = str(version.version)
    return ModelVersion(
        name=version.name,
        version=number,
        run_id=version.run_id or "",
        source=version.source or "",
        tags=dict(version.tags),
        aliases=tuple(sorted(alias for alias, target in aliases.items() if target == number)),
        description=version.description or "",
    )
