"""The embedded model server under load, beside the bare tf.function and `mlflow models serve`, client and server on the same cores."""

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures import Figure, Place, alternate, bench_main, median_figure, ratio
from product import environment, finished_run, fresh_folder, tandem_command

MODEL = "credit-risk"
SECONDS = 2.0
ROWS_RATIO, MLFLOW_RATIO, HOT_LOAD_RATIO = 0.4, 5.0, 3.0
CLIENTS = (1, 8, 32)
START_TIMEOUT_S = 180.0


def measure(place: Place) -> list[Figure]:
    """Every combination once a round, all servers up, one under load at a time."""
    base, version = served_model(place.folder)
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(model_server(place.folder, f"{MODEL}={base}", name="plain"))
        batching = stack.enter_context(model_server(place.folder, f"{MODEL}={base}", "--batching", name="batching"))
        peer = stack.enter_context(mlflow_server(place.folder))
        common = {"model": MODEL, "saved_model": str(version), "seconds": SECONDS}
        subjects: dict[str, Any] = {
            "tf.function, 32 rows": {"protocol": "function", "clients": 1, "rows": 32},
            "tf.function, 1 row": {"protocol": "function", "clients": 1, "rows": 1},
            "mlflow models serve, 1 row, 8 clients": {"protocol": "mlflow", "port": peer, "clients": 8, "rows": 1},
        }
        for server, ports in (("", plain), (", batching", batching)):
            for protocol in ("grpc", "rest"):
                for rows in (1, 32):
                    for clients in CLIENTS:
                        name = f"{protocol}, {rows} row{'s' if rows > 1 else ''}, {clients} client{'s' if clients > 1 else ''}{server}"
                        subjects[name] = {"protocol": protocol, "port": ports[protocol], "clients": clients, "rows": rows}
        found = alternate({name: lambda _, asked=asked: client({**common, **asked}) for name, asked in subjects.items()}, place.repeats)
    hot = [hot_load(place.folder, version, number) for number in range(place.repeats)]
    return figures(found, hot)


def figures(found: dict[str, list[dict[str, Any]]], hot: list[float]) -> list[Figure]:
    """Ratios first, then every combination."""

    def rate(name: str, what: str) -> list[float]:
        return [one[what] / one["seconds"] for one in found[name]]

    bare = rate("tf.function, 32 rows", "rows")
    best = max((name for name in found if name.startswith("grpc, 32 rows")), key=lambda name: statistics.median(rate(name, "rows")))
    ours = max(
        (name for name in found if "1 row, 8 clients" in name and "mlflow" not in name),
        key=lambda name: statistics.median(rate(name, "requests")),
    )
    peer = rate("mlflow models serve, 1 row, 8 clients", "requests")
    made = [
        Figure("gRPC rows/s over the bare function's, 32 rows", ratio(rate(best, "rows"), bare), "x", ROWS_RATIO, "at least", note=best),
        Figure(
            "requests/s over mlflow models serve, 8 clients", ratio(rate(ours, "requests"), peer), "x", MLFLOW_RATIO, "at least", note=ours
        ),
        median_figure("p99 during a hot load over p99 before", hot, "x", at_most=HOT_LOAD_RATIO, note="grpc, 1 row, 8 clients"),
    ]
    for name, ones in found.items():
        p50, p99 = (statistics.median(one[key] for one in ones) for key in ("p50_ms", "p99_ms"))
        cpu = statistics.median(one["cpu_s"] / one["seconds"] for one in ones)
        errors = sum(one["errors"] for one in ones)
        requests = statistics.median(rate(name, "requests"))
        note = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms; {requests:.0f} requests/s; client CPU {cpu:.2f} cores; errors {errors}"
        made.append(median_figure(name, rate(name, "rows"), "rows/s", note=note))
    return made


def client(asked: dict[str, Any]) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("load_client.py"))]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=600, env=environment())
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def served_model(folder: Path) -> tuple[Path, Path]:
    """Folder of versions that the pipeline pushed, and the version."""
    base = finished_run(folder) / "serving" / "staging" / MODEL
    return base, next(path for path in sorted(base.iterdir()) if path.name.isdigit())


@contextlib.contextmanager
def model_server(folder: Path, model: str, *words: str, name: str) -> Iterator[dict[str, int]]:
    """`tandem serve`; its ports."""
    command = tandem_command("serve", "--model", model, "--grpc-port", "0", "--rest-port", "0", "--poll", "0.2", "--json", *words)
    with (folder / f"serve-{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment(), cwd=folder)
    assert process.stdout is not None
    try:
        text = b""
        while not text.rstrip().endswith(b"}"):
            text += process.stdout.readline()
        ports = json.loads(text)
        await_answer(f"http://127.0.0.1:{ports['rest_port']}/readyz")
        yield {"grpc": ports["grpc_port"], "rest": ports["rest_port"]}
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[int]:
    """`mlflow models serve` over the package of the same version; its port."""
    home = finished_run(folder) / ".tandem"
    package = next(
        path.parent.parent for path in sorted(home.rglob("saved_model/saved_model.pb")) if (path.parent.parent / "MLmodel").is_file()
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "models",
        "serve",
        "-m",
        str(package),
        "--env-manager",
        "local",
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
    ]
    # MLflow starts uvicorn by name.
    found = {**environment(), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    with (folder / "mlflow-serve.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=found, cwd=folder, start_new_session=True)
    try:
        await_answer(f"http://127.0.0.1:{port}/ping")
        yield port
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def hot_load(folder: Path, version: Path, number: int) -> float:
    """p99 while a second version loads over p99 before it."""
    base = fresh_folder(folder / f"hot-{number}")
    shutil.copytree(version, base / "1")
    mark = folder / f"mark-{number}"
    mark.unlink(missing_ok=True)
    with model_server(folder, f"{MODEL}={base}", name=f"hot-{number}") as ports:
        asked = {"protocol": "grpc", "port": ports["grpc"], "clients": 8, "rows": 1, "seconds": 12.0, "model": MODEL}
        command = [sys.executable, str(Path(__file__).with_name("load_client.py"))]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), text=True
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({**asked, "saved_model": str(version), "mark": str(mark)}))
        process.stdin.close()
        await_traffic(ports["rest"])
        time.sleep(4)
        shutil.copytree(version, base / ".incoming")
        mark.touch()
        (base / ".incoming").rename(base / "2")
        assert process.stdout is not None
        answer = json.loads(process.stdout.read())
        process.wait(60)
    return float(answer["p99_after_ms"] / answer["p99_ms"])


def await_traffic(port: int) -> None:
    """Until the server counts answered requests."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/monitoring/prometheus/metrics") as answer:
            if b'status="OK"' in answer.read():
                return
        time.sleep(0.1)


def await_answer(url: str) -> None:
    """Until the address answers 200.

    Raises:
        TimeoutError: it does not.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise TimeoutError(url)


if __name__ == "__main__":
    bench_main(measure)
