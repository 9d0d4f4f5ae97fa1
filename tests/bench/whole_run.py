"""Whole runs: Tandem with two frameworks, cold and again unchanged, against a stock TFX pipeline with Keras alone."""

import shutil
import sys
from pathlib import Path

from figures import Figure, Place, alternate, bench_main, median_figure, ratio
from process_tree import Usage
from product import DATA, USE_CASE, fresh_folder, run_checked, tandem_command

STOCK = Path(__file__).resolve().parent / "stock_tfx" / "pipeline.py"
COLD_LIMIT = 0.9
RERUN_LIMIT = 0.25


def measure(place: Place) -> list[Figure]:
    """Rounds of cold run, re-run in the same folder, stock pipeline; each round in fresh folders."""
    ours, stock = place.folder / "whole-ours", place.folder / "whole-stock"

    def cold(_: int) -> Usage:
        return run_checked(tandem_command("run", USE_CASE), folder=fresh_folder(ours), log=place.folder / "whole-ours.log")

    def again(_: int) -> Usage:
        return run_checked(tandem_command("run", USE_CASE), folder=ours, log=place.folder / "whole-again.log")

    def peer(_: int) -> Usage:
        data = fresh_folder(stock) / "data"
        data.mkdir()
        shutil.copy(DATA, data)
        return run_checked([sys.executable, str(STOCK), str(stock)], folder=stock, log=place.folder / "whole-stock.log")

    (place.folder / "whole-stock.log").unlink(missing_ok=True)
    used = alternate({"cold": cold, "again": again, "stock": peer}, place.repeats)
    return [*figures_of(used), _stock_auc(place.folder / "whole-stock.log")]


def figures_of(used: dict[str, list[Usage]]) -> list[Figure]:
    """Medians, ratios of medians and peaks of `cold`, `again` and `stock`."""
    names = {"cold": "Tandem, two frameworks, cold", "again": "Tandem, unchanged re-run", "stock": "stock TFX, Keras alone, cold"}
    figures = []
    for kind, unit in (("wall", "s"), ("cpu", "CPU s")):
        seconds = {name: [getattr(usage, f"{kind}_s") for usage in usages] for name, usages in used.items()}
        figures += [median_figure(f"{label}, {kind}", seconds[name], unit) for name, label in names.items()]
        figures += [
            Figure(f"cold against stock, {kind}", ratio(seconds["cold"], seconds["stock"]), "x", COLD_LIMIT, "at most"),
            Figure(f"re-run against cold, {kind}", ratio(seconds["again"], seconds["cold"]), "x", RERUN_LIMIT, "at most"),
        ]
    for name, label in names.items():
        peaks = [usage.peak_bytes / 1e9 for usage in used[name]]
        figures.append(median_figure(f"{label}, largest process", peaks, "GB"))
    return figures


def _stock_auc(log: Path) -> Figure:
    """What the peer's models are worth: a pipeline that trains badly would be no peer."""
    aucs = [float(line.split()[1]) for line in log.read_text(errors="replace").splitlines() if line.startswith("auc ")]
    return median_figure("stock TFX, eval AUC", aucs, note="on a split of its own: not comparable to Tandem's to the second digit")


if __name__ == "__main__":
    bench_main(measure)
