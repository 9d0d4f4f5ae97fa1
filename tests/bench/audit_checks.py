"""CPU of the audit's checks beyond TFMA beside the TFMA run of the same model: one process, in turn, start-up left out."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import Figure, Place, alternate, bench_main, median_figure, ratio
from product import HOME, USE_CASE, finished_run, fresh_folder

LIMIT = 0.5
FRAMEWORK = "keras"


def measure(place: Place) -> list[Figure]:
    """Both on the artifacts of a finished run; a first round is not counted, it traces and imports."""
    run = finished_run(place.folder)
    subjects = _subjects(run / HOME / "artifacts" / USE_CASE, place.folder)
    alternate(subjects, 1)
    used = alternate(subjects, place.repeats)
    made = [median_figure(f"{name}, cpu", samples, "CPU s") for name, samples in used.items()]
    checks, tfma = used.values()
    return [*made, Figure("checks over TFMA, cpu", ratio(checks, tfma), "x", LIMIT, "at most")]


def _subjects(artifacts: Path, scratch: Path) -> dict[str, Callable[[int], float]]:
    import apache_beam as beam

    from components.auditor import evaluation, predictions
    from components.auditor.checks.gather import Material, gather
    from components.auditor.slices import SliceRows
    from components.core.measurements import TRAINING_FACTS_FILE, TrainingFacts, read_measurement
    from pipelines.config import find_use_case, load_config

    config = load_config(find_use_case(USE_CASE))
    data, audit = config.data_spec, config.audit_spec
    examples, model = (
        _newest(artifacts / "ingest" / "examples"),
        _newest(artifacts / f"{FRAMEWORK}-xla-compiler" / "model") / "Format-Serving",
    )
    facts = read_measurement(TrainingFacts, str(_newest(artifacts / f"{FRAMEWORK}-trainer" / "model_run")), TRAINING_FACTS_FILE)
    loaded = predictions.LoadedModel(model, data)
    split = predictions.read_eval_split(examples / "Split-eval", data)
    scored = predictions.predict(split, data, candidate=loaded)
    material = Material(model, loaded, split.examples, examples / "Split-train", facts)
    judged = [(metric, *found) for metric, found in SliceRows.of(scored, audit).judged]
    spec = evaluation.build_eval_config(data, audit, judged=judged, with_champion=False)

    def tfma(number: int) -> float:
        output = fresh_folder(scratch / f"evaluation-{number}")
        pipeline = beam.Pipeline(argv=["--runner=FnApiRunner", "--sdk_container_image=none", "--no_pipeline_type_check"])
        return _cpu_s(lambda: evaluation.run_tfma(scored, spec, pipeline, output_path=str(output)))

    return {
        "checks beyond TFMA": lambda _: _cpu_s(lambda: gather(scored, data, audit, material)),
        "the TFMA run": tfma,
    }


def _cpu_s(call: Callable[[], Any]) -> float:
    """CPU seconds of this process, its threads included."""
    began = time.process_time()
    call()
    return time.process_time() - began


def _newest(folder: Path) -> Path:
    """The artifact of the last execution."""
    return max(folder.iterdir(), key=lambda path: int(path.name))


if __name__ == "__main__":
    bench_main(measure)
