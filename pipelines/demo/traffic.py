"""Callers of the router: one loan application a request, each applicant with a request key of their own."""

import collections
import concurrent.futures
import csv
import http.client
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from components.core.contracts import Contract
from components.core.errors import ServingError

_CALLERS = 4
_TIMEOUT_S = 60.0


class Answers(Contract):
    """What callers got.

    Attributes:
        asked: requests.
        failed: those that were not answered with a score.
        by_version: production version -> requests that it answered.
    """

    asked: int
    failed: int
    by_version: Mapping[str, int]

    def share_of(self, version: str) -> float:
        """Percent of the requests that a version answered."""
        return 100 * self.by_version.get(version, 0) / max(1, self.asked)


class Callers:
    """Applicants who ask one after the other, four at a time."""

    def __init__(self, router: str, *, model: str, data: Path, features: Mapping[str, tuple[str, ...]]) -> None:
        """Prepares.

        Args:
            router: REST address.
            model: name that they ask for.
            data: CSV with the applications.
            features: of pipeline.toml, `integer` and `category`.
        """
        address = urlsplit(router)
        self._host, self._port = address.hostname or "", address.port or 0
        self._path = f"/v1/models/{model}:predict"
        with data.open(newline="", encoding="utf-8") as file:
            self._bodies = [_body(row, features) for row in csv.DictReader(file)]
        self._next = 0

    def ask(self, count: int) -> Answers:
        """Sends the next `count` requests; every applicant has another key.

        Raises:
            ServingError: the router does not answer at all.
        """
        numbers = range(self._next, self._next + count)
        self._next += count
        with concurrent.futures.ThreadPoolExecutor(_CALLERS) as pool:
            parts = list(pool.map(self._ask_each, (numbers[start::_CALLERS] for start in range(_CALLERS))))
        versions = collections.Counter(itertools.chain.from_iterable(parts))
        failed = versions.pop("", 0)
        if failed == count:
            raise ServingError(f"the router at {self._host}:{self._port} answered none of {count} requests; see demo.log")
        return Answers(asked=count, failed=failed, by_version=dict(sorted(versions.items())))

    def share_of(self, model: str, version: str) -> int:
        """Percent of the keys that go to a production version, as the router says now.

        Raises:
            ServingError: the router does not answer, or rolled this version back.
        """
        found = self._split(model)
        if version in found["rolled_back"]:
            raise ServingError(f"the router rolled {model} version {version} back: {found['rolled_back'][version]}")
        shares = {"champion": 100 - found["share"], "canary": found["share"]}
        return int(sum(shares.get(label, 0) for label, labelled in found["labels"].items() if labelled == version))

    def _split(self, model: str) -> Any:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", "/tandem/rollout")
            return json.loads(connection.getresponse().read())["models"][model]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            raise ServingError(f"the router at {self._host}:{self._port} does not say how it splits: {error!r}") from error
        finally:
            connection.close()

    def _ask_each(self, numbers: range) -> list[str]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
        try:
            return list(self._versions(connection, numbers))
        finally:
            connection.close()

    def _versions(self, connection: http.client.HTTPConnection, numbers: range) -> Iterator[str]:
        """The version that answered each; empty where none gave a score."""
        for number in numbers:
            headers = {"Content-Type": "application/json", "x-tandem-key": f"applicant-{number}"}
            try:
                connection.request("POST", self._path, self._bodies[number % len(self._bodies)], headers)
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                yield ""
                continue
            yield answer.getheader("x-tandem-version", "") if answer.status == 200 and b"scores" in text else ""


def total(parts: Sequence[Answers]) -> Answers:
    """Of several looks together."""
    counts: collections.Counter[str] = collections.Counter()
    for part in parts:
        counts.update(part.by_version)
    return Answers(
        asked=sum(part.asked for part in parts), failed=sum(part.failed for part in parts), by_version=dict(sorted(counts.items()))
    )


def _body(row: Mapping[str, str], features: Mapping[str, tuple[str, ...]]) -> bytes:
    """A row in the JSON of `serving_raw`; a missing number is NaN, which TensorFlow Serving's JSON has as a word."""
    cells: dict[str, list[object]] = {name: [int(row[name])] if row[name] else [float("nan")] for name in features["integer"]}
    cells |= {name: [row[name]] for name in features["category"]}
    return json.dumps({"signature_name": "serving_raw", "inputs": cells}).encode()
