"""CPU of the commands that people wait for: `tandem --help`, `tandem runs` over 50 runs, `tandem compare`."""

from pathlib import Path

from figures import Figure, Place, alternate, bench_main, median_figure
from product import HOME, finished_record, finished_run, fresh_folder, run_checked, tandem_command

RUNS = 50
HELP_LIMIT_S = 0.3
RUNS_LIMIT_S = 1.0
CALLS_A_ROUND = 3


def measure(place: Place) -> list[Figure]:
    """Each command several times a round, alternating; one call before warms the file cache."""
    crowded, finished = _folder_with_runs(place.folder), finished_run(place.folder)
    log = place.folder / "command-line.log"
    words = {
        "tandem --help": (place.folder, ("--help",)),
        f"tandem runs ({RUNS} runs)": (crowded, ("runs", "--limit", str(RUNS))),
        f"tandem runs --json ({RUNS} runs)": (crowded, ("runs", "--limit", str(RUNS), "--json")),
        "tandem compare": (finished, ("compare",)),
    }
    limits = [HELP_LIMIT_S, RUNS_LIMIT_S, RUNS_LIMIT_S, None]
    subjects = {
        name: lambda _, folder=folder, arguments=arguments: run_checked(tandem_command(*arguments), folder=folder, log=log)
        for name, (folder, arguments) in words.items()
    }
    alternate(subjects, 1)
    used = alternate(subjects, place.repeats * CALLS_A_ROUND)
    figures = [
        median_figure(f"{name}, cpu", [usage.cpu_s for usage in used[name]], "CPU s", at_most=limit)
        for name, limit in zip(subjects, limits, strict=True)
    ]
    return figures + [median_figure(f"{name}, wall", [usage.wall_s for usage in used[name]], "s") for name in subjects]


def _folder_with_runs(folder: Path) -> Path:
    """A folder whose home holds the journals of 50 runs: the real record of a finished run under 50 ids, without its artifacts' bytes."""
    from pipelines.journal import RUN_FILE

    record = finished_record(folder)
    place = fresh_folder(folder / "fifty-runs")
    for number in range(RUNS):
        run_id = f"20260101T0000{number:02d}-{number:04x}"
        run_folder = place / HOME / "runs" / run_id
        run_folder.mkdir(parents=True)
        (run_folder / RUN_FILE).write_text(record.model_copy(update={"id": run_id}).model_dump_json(indent=1))
    return place


if __name__ == "__main__":
    bench_main(measure)
