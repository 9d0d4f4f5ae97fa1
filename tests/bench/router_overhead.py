"""What the router adds to a call: the same calls to a still model server directly and through it, in turn, over REST and gRPC.

And how it splits 10,000 of them at 5 %.

The server behind answers each call at once with the same bytes, so that the router's share is seen and not the model's. A rollout at 5 %
goes on meanwhile: scores are read, guards judge. Client, router and server share the machine's cores.
"""

import asyncio
import contextlib
import http.client
import json
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from figures import Figure, Place, alternate, bench_main, median_figure
from product import environment, fresh_folder, tandem_command

MODEL = "credit-risk"
CALLS, WARM_UP = 1500, 200
LIMIT_MS = 1.0
SPLIT_CALLS, SHARE = 10_000, 0.05
ROWS = 8
REST_BODY = json.dumps({"instances": [{"x": float(row)} for row in range(ROWS)]}).encode()
REST_ANSWER = json.dumps({"predictions": [{"scores": [0.25, 0.75], "classes": ["good", "bad"]} for _ in range(ROWS)]}).encode()


def measure(place: Place) -> list[Figure]:
    """Direct and routed in turn, a round each."""
    with contextlib.ExitStack() as stack:
        backend = stack.enter_context(started([sys.executable, __file__, "backend"], place.folder, "backend"))
        router = stack.enter_context(running_router(place.folder, backend))
        calls = {
            "REST direct": stack.enter_context(rest_caller(backend["rest_port"])),
            "REST routed": stack.enter_context(rest_caller(router["rest_port"])),
            "gRPC direct": stack.enter_context(grpc_caller(backend["grpc_port"])),
            "gRPC routed": stack.enter_context(grpc_caller(router["grpc_port"])),
        }
        share = canary_share(router["rest_port"])
        found = alternate({name: lambda number, call=call: latencies(call, number) for name, call in calls.items()}, place.repeats)
    sigma = (SHARE * (1 - SHARE) / SPLIT_CALLS) ** 0.5
    note = f"{share:.2%} of {SPLIT_CALLS} calls with different keys, sigma {sigma:.2%}"
    made = [median_figure("REST: distance of the canary's share to 5 %", [abs(share - SHARE) / sigma], "sigma", at_most=3, note=note)]
    for protocol in ("REST", "gRPC"):
        direct, routed = (found[f"{protocol} {way}"] for way in ("direct", "routed"))
        for level, limit in ((50, LIMIT_MS), (99, None)):
            added = [of_level(ours, level) - of_level(theirs, level) for ours, theirs in zip(routed, direct, strict=True)]
            note = f"{median_of(routed, level):.3f} ms routed, {median_of(direct, level):.3f} ms direct"
            made.append(median_figure(f"{protocol}: p{level} that the router adds", added, "ms", at_most=limit, note=note))
    return made


def of_level(samples: list[float], level: int) -> float:
    """Percentile of one round."""
    return statistics.quantiles(samples, n=100, method="inclusive")[level - 1]


def median_of(rounds: list[list[float]], level: int) -> float:
    """Median over the rounds of that percentile."""
    return statistics.median(of_level(samples, level) for samples in rounds)


def latencies(call: Callable[[str], None], number: int) -> list[float]:
    """Milliseconds of each call, by one client, one after the other; keys differ."""
    for place in range(WARM_UP):
        call(f"warm-{place}")
    taken = []
    for place in range(CALLS):
        began = time.perf_counter()
        call(f"user-{number}-{place}")
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def canary_share(port: int) -> float:
    """Share of the calls that version 2 answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    canary = 0
    with contextlib.closing(connection):
        for number in range(SPLIT_CALLS):
            connection.request("POST", f"/v1/models/{MODEL}:predict", REST_BODY, {"x-tandem-key": f"user-{number}"})
            response = connection.getresponse()
            response.read()
            canary += response.headers["x-tandem-version"] == "2"
    return canary / SPLIT_CALLS


@contextlib.contextmanager
def rest_caller(port: int) -> Iterator[Callable[[str], None]]:
    """One kept connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(key: str) -> None:
        connection.request("POST", f"/v1/models/{MODEL}:predict", REST_BODY, {"Content-Type": "application/json", "x-tandem-key": key})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(content[:200])

    yield call
    connection.close()


@contextlib.contextmanager
def grpc_caller(port: int) -> Iterator[Callable[[str], None]]:
    """One channel."""
    import grpc

    message = field(1, field(1, MODEL.encode())) + field(2, field(1, b"x") + field(2, b"\x08\x01" + field(5, bytes(4 * ROWS))))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        yield lambda key: predict(message, metadata=(("x-tandem-key", key),), timeout=60)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field of fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


@contextlib.contextmanager
def started(command: list[str], folder: Path, name: str) -> Iterator[dict[str, int]]:
    """A process that says its ports as JSON."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment(), cwd=folder)
    assert process.stdout is not None
    try:
        text = b""
        while not text.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"{name} ended; its words are in {folder / f'{name}.log'}")
            text += line
        yield json.loads(text)
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def running_router(folder: Path, backend: dict[str, int]) -> Iterator[dict[str, int]]:
    """`tandem route` over a ledger in which version 2 has 5 %."""
    home = fresh_folder(folder / "router") / ".tandem"
    make_ledger(home)
    addresses = ("--backend", f"http://127.0.0.1:{backend['rest_port']}", "--grpc-backend", f"127.0.0.1:{backend['grpc_port']}")
    words = ("--home", str(home), "--key", str(home / "router.pem"), "--port", "0", "--grpc-port", "0", "--json")
    with started(tandem_command("route", *addresses, *words), folder, "router-process") as ports:
        yield ports


def make_ledger(home: Path) -> None:
    """A ledger and keys: version 1 is champion, version 2 gets 5 % and stays there."""
    from components.core.ledger import Subject
    from components.core.production_ledger import ProductionLedger
    from components.core.promotion import LedgerSpec
    from components.core.rollout import RolloutRule, ServedVersion
    from components.core.signing import PrivateKey, PublicKey, PublicKeys

    home.mkdir()
    admin, router = PrivateKey.generate(), PrivateKey.generate()
    router.write(home / "router.pem")
    enrolled: list[tuple[PrivateKey, str, Any]] = [(admin, "admin", "admin"), (router, "router", "service")]
    PublicKeys(
        PublicKey(public=key.public, owner=owner, role=role, enrolled_by=admin.key_id, enrolled_at="2026-01-01T00:00:00+00:00").signed_by(
            admin
        )
        for key, owner, role in enrolled
    ).write(home / "public_keys.json")
    keys, key = str(home / "public_keys.json"), str(home / "router.pem")
    book = ProductionLedger(LedgerSpec(url=f"sqlite:///{home / 'ledger.db'}", public_keys=keys, private_key=key))
    for number, share in (("1", 100), ("2", 5)):
        subject = Subject(model=MODEL, version=number, model_digest=number * 64, dossier_digest="d" * 64)
        version = ServedVersion(version=number, subject=subject)
        book.enter("promote", version)
        book.enter("push", version)
        rule = RolloutRule(step_s=86_400)
        book.enter("rollout_step", version, details={"share": str(share), "rollout": rule.to_json()})


async def still_backend() -> None:
    """Answers REST and gRPC predictions with the same bytes until SIGTERM."""
    import grpc
    from aiohttp import web

    flat = struct.pack(f"<{2 * ROWS}f", *(0.25, 0.75) * ROWS)
    shape = field(2, field(2, bytes([8, ROWS])) + field(2, b"\x08\x02"))
    answer = field(1, field(1, b"scores") + field(2, b"\x08\x01" + shape + field(5, flat)))

    async def rest(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=REST_ANSWER, content_type="application/json")

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            del details
            return grpc.unary_unary_rpc_method_handler(predict)

    async def predict(message: bytes, context: Any) -> bytes:
        del message, context
        return answer

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", rest)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = grpc.aio.server(handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(json.dumps({"rest_port": int(runner.addresses[0][1]), "grpc_port": port}) + "\n")
    sys.stdout.flush()
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()
    await server.stop(1)
    await runner.cleanup()


if __name__ == "__main__":
    if sys.argv[1:] == ["backend"]:
        asyncio.run(still_backend())
    else:
        bench_main(measure)
