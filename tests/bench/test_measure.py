"""The measuring functions: nothing here is about speed, all about counting everything once."""

import json
import math
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

BURN = """
import os, sys, time
def burn(seconds):
    while time.process_time() < seconds: pass
"""
BURNED_S = 0.5


@pytest.fixture
def measured(tmp_path, bench_modules):
    """Runs a Python program under the watcher."""
    import process_tree

    def run(program, **options):
        program = BURN + textwrap.dedent(program)
        return process_tree.run_measured([sys.executable, "-c", program], folder=tmp_path, log=tmp_path / "log", **options)

    return run


def test_cpu_of_the_command_itself_is_counted(measured):
    usage = measured(f"burn({BURNED_S})")
    assert (usage.exit_code, usage.processes) == (0, 1)
    assert BURNED_S <= usage.cpu_s < BURNED_S + 0.3
    assert usage.wall_s >= BURNED_S


def test_cpu_of_a_child_that_was_waited_for_is_counted_once(measured):
    usage = measured(f"pid = os.fork()\nif pid == 0: burn({BURNED_S}); os._exit(0)\nos.waitpid(pid, 0)")
    assert usage.processes == 1
    assert BURNED_S <= usage.cpu_s < BURNED_S + 0.3


def test_cpu_of_an_orphaned_grandchild_is_counted_once(measured):
    program = f"""
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                time.sleep(0.2)
                burn({BURNED_S})
            os._exit(0)
        """
    usage = measured(program)
    # The command, its child that nobody waited for, and the grandchild that outlived both.
    assert usage.processes == 3
    assert BURNED_S <= usage.cpu_s < BURNED_S + 0.4
    assert usage.wall_s < BURNED_S


def test_cpu_below_an_orphan_is_counted_as_in_a_forkserver(measured, tmp_path):
    """The forkserver is left behind by its parent and waits for its own children."""
    (tmp_path / "served.py").write_text(BURN)
    program = f"""
        import multiprocessing, served
        if __name__ == "__main__":
            context = multiprocessing.get_context("forkserver")
            processes = [context.Process(target=served.burn, args=({BURNED_S},)) for _ in range(2)]
            for process in processes: process.start()
            for process in processes: process.join()
        """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    usage = measured(f"import runpy; sys.path.insert(0, '.'); runpy.run_path({str(tmp_path / 'program.py')!r}, run_name='__main__')")
    assert usage.exit_code == 0
    assert 2 * BURNED_S <= usage.cpu_s < 2 * BURNED_S + 1.0


def test_children_of_the_measuring_process_are_not_counted(measured):
    with subprocess.Popen([sys.executable, "-c", BURN + "burn(0.6)"]) as other:
        usage = measured("pass")
        assert other.wait() == 0
    assert usage.cpu_s < 0.4


@pytest.mark.parametrize(("program", "code"), [("sys.exit(3)", 3), ("import signal; os.kill(os.getpid(), signal.SIGKILL)", 137)])
def test_exit_code_is_that_of_the_command(measured, program, code):
    assert measured(program).exit_code == code


def test_peak_is_the_largest_process(measured):
    usage = measured("pid = os.fork()\nx = b'x' * 200_000_000 if pid == 0 else b''\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)")
    assert 200e6 < usage.peak_bytes < 320e6


def test_a_process_that_stays_is_named(measured, bench_modules, tmp_path):
    from process_tree import CommandError

    program = "import pathlib\nif os.fork() == 0:\n    pathlib.Path('stays').write_text(str(os.getpid())); time.sleep(60)\ntime.sleep(0.3)"
    with pytest.raises(CommandError, match=r"processes (\d+) outlived the command by 0\.2 s"):
        measured(program, linger_s=0.2)
    os.kill(int((tmp_path / "stays").read_text()), 9)


def test_a_command_that_is_not_there_is_an_error(tmp_path, bench_modules):
    from process_tree import CommandError, run_measured

    with pytest.raises(CommandError, match="could not be measured: FileNotFoundError"):
        run_measured(["no-such-command"], folder=tmp_path, log=tmp_path / "log")


def test_environment_and_folder_reach_the_command(measured, tmp_path):
    usage = measured("open('seen', 'w').write(os.environ['GIVEN'])", environment={**os.environ, "GIVEN": "here"})
    assert usage.exit_code == 0
    assert (tmp_path / "seen").read_text() == "here"


def test_subjects_alternate(bench_modules):
    from figures import alternate

    calls = []
    results = alternate({name: lambda number, name=name: calls.append(name) or (name, number) for name in "AB"}, 3)
    assert calls == ["A", "B"] * 3
    assert results == {"A": [("A", 0), ("A", 1), ("A", 2)], "B": [("B", 0), ("B", 1), ("B", 2)]}
    with pytest.raises(ValueError, match="at least one"):
        alternate({}, 0)


def test_medians_and_ratios(bench_modules):
    from figures import median_figure, ratio

    figure = median_figure("x", [9.0, 1.0, 2.0], "s", at_most=2.0)
    assert (figure.value, figure.samples, figure.verdict) == (2.0, (9.0, 1.0, 2.0), "met")
    assert median_figure("x", [1.0, 2.0], "s").value == 1.5
    assert ratio([3.0, 100.0, 1.0], [4.0, 2.0, 0.0]) == 1.5
    assert ratio([1.0], [0.0]) == math.inf


@pytest.mark.parametrize(
    ("value", "limit", "bound", "verdict"),
    [
        (0.25, 0.25, "at most", "met"),
        (0.26, 0.25, "at most", "MISSED"),
        (0.8, 0.8, "at least", "met"),
        (0.79, 0.8, "at least", "MISSED"),
        (math.nan, 0.8, "at least", "MISSED"),
        (math.nan, 0.8, "at most", "MISSED"),
        (1.0, None, None, ""),
    ],
)
def test_a_bad_figure_is_called_missed(value, limit, bound, verdict, bench_modules):
    from figures import Figure

    assert Figure("x", value, "x", limit, bound).verdict == verdict


@pytest.mark.parametrize(
    ("value", "text"), [(0.859312, "0.8593"), (61.94, "61.94"), (233_512.0, "233500"), (9_876.5, "9876"), (math.inf, "inf")]
)
def test_numbers_are_shown_with_four_digits(value, text, bench_modules):
    from figures import shown

    assert shown(value) == text


def test_figures_survive_their_file(tmp_path, bench_modules):
    import dataclasses

    from figures import Figure, read_figures

    figures = [Figure("a", 1.5, "s", 2.0, "at most", (1.0, 2.0), "why"), Figure("b", 0.1)]
    (tmp_path / "figures.json").write_text(json.dumps([dataclasses.asdict(figure) for figure in figures]))
    assert read_figures(tmp_path / "figures.json") == figures


def test_table_leaves_out_empty_columns_and_keeps_bad_figures(bench_modules):
    from figures import Figure
    from run import table

    text = table([Figure("a|b", 3.0, "x", 0.25, "at most"), Figure("c", 61.9, "s", samples=(60.0, 61.9, 70.0))])
    assert text.splitlines() == [
        "| figure | value  | target         | verdict | repetitions |",
        "|--------|--------|----------------|---------|-------------|",
        "| a\\|b   | 3 x    | at most 0.25 x | MISSED  |             |",
        "| c      | 61.9 s |                |         | 60 61.9 70  |",
    ]


def test_the_shipped_seed_is_one_of_five(bench_modules):
    from five_seeds import choose_seeds

    from pipelines.config import find_use_case, load_config

    assert choose_seeds(1) == (0, 1, 2, 3, 4)
    assert choose_seeds(77) == (0, 1, 2, 3, 77)
    shipped = load_config(find_use_case("credit_risk")).training_spec.seed
    assert shipped in choose_seeds(shipped)


@pytest.mark.parametrize(("words", "message"), [(["fast"], "no bench 'fast'; there are whole_run, "), (["--repeats", "0"], "at least 1")])
def test_run_refuses_what_it_does_not_know(words, message):
    run = str(Path(__file__).with_name("run.py"))
    finished = subprocess.run([sys.executable, run, *words], capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert message in finished.stderr


def test_run_writes_a_section_and_says_what_failed(tmp_path):
    """The command line of the bench on the one bench that needs no pipeline, made to fail by a folder that is a file."""
    run = str(Path(__file__).with_name("run.py"))
    folder, results = tmp_path / "scratch", tmp_path / "RESULTS.md"
    folder.mkdir()
    (folder / "torch-feed").write_text("in the way")
    began = time.time()
    command = [sys.executable, run, "torch_feed", "--repeats", "1", "--folder", str(folder), "--results", str(results)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    text = results.read_text()
    assert finished.returncode == 1, finished.stderr
    assert f"## {time.strftime('%Y-%m-%d', time.gmtime(began))}" in text
    assert "- processor: " in text
    assert "Not measured: FileExistsError" in text


def test_whole_runs_become_ratios_of_medians(bench_modules):
    from process_tree import Usage
    from whole_run import figures_of

    def usages(*seconds):
        return [Usage(wall_s=second, cpu_s=second / 2, peak_bytes=2_000_000_000, processes=3, exit_code=0) for second in seconds]

    figures = {
        figure.name: figure for figure in figures_of({"cold": usages(50, 45, 90), "again": usages(10, 9, 15), "stock": usages(60, 62, 50)})
    }
    cold, again = figures["cold against stock, wall"], figures["re-run against cold, cpu"]
    assert (round(cold.value, 6), cold.limit, cold.verdict) == (round(50 / 60, 6), 0.9, "met")
    assert (again.value, again.limit, again.verdict) == (10 / 50, 0.25, "met")
    assert figures["Tandem, two frameworks, cold, cpu"].value == 25
    assert figures["stock TFX, Keras alone, cold, largest process"].value == 2.0
