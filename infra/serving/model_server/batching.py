"""Requests that come at the same time share one call: a queue for each signature of a version, and threads that take from all of them."""

import dataclasses
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from components.core.errors import ConfigError
from infra.serving.model_server.faults import Code, ServingFault
from infra.serving.model_server.servable import Servable, Signature
from infra.serving.model_server.session import Array

Answer = dict[str, Array]
_PARAMETER = re.compile(r"(\w+)\s*(?::|\{\s*value\s*:)\s*([\w.]+)\s*\}?")


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """TensorFlow Serving's batching parameters.

    Attributes:
        max_batch_size: rows of a call.
        batch_timeout_micros: microseconds that a request waits for others.
        max_enqueued_batches: batches of work that may wait; more is refused.
        num_batch_threads: calls at once.
        allowed_batch_sizes: a call is filled up to one of these, ascending, the last `max_batch_size`; empty = any size.
    """

    max_batch_size: int = 64
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 64
    num_batch_threads: int = 2
    allowed_batch_sizes: tuple[int, ...] = ()


def read_parameters(path: Path) -> BatchingParameters:
    """Reads a batching_parameters_file: `name { value: N }`, and `allowed_batch_sizes : N` repeated.

    Raises:
        ConfigError: it cannot be read, or holds a key or a value that is not served.
    """
    try:
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
    left = _PARAMETER.sub("", text).strip()
    known = {field.name for field in dataclasses.fields(BatchingParameters)}
    values: dict[str, int] = {}
    sizes: list[int] = []
    for name, value in _PARAMETER.findall(text):
        if name not in known or not value.isdigit() or left:
            raise ConfigError(f"{path}: {name} = {value}: allowed are whole numbers for {', '.join(sorted(known))}")
        if name == "allowed_batch_sizes":
            sizes.append(int(value))
        else:
            values[name] = int(value)
    if left:
        raise ConfigError(f"{path}: {left[:60]!r} is no batching parameter; write e.g. `max_batch_size {{ value: 64 }}`")
    made = BatchingParameters(**values, allowed_batch_sizes=tuple(sizes))
    if sizes and (sorted(set(sizes)) != sizes or sizes[-1] != made.max_batch_size):
        raise ConfigError(f"{path}: allowed_batch_sizes must ascend and end with max_batch_size ({made.max_batch_size})")
    if min(made.max_batch_size, made.max_enqueued_batches, made.num_batch_threads) < 1:
        raise ConfigError(f"{path}: max_batch_size, max_enqueued_batches and num_batch_threads are at least 1")
    return made


@dataclasses.dataclass
class _Task:
    """One request in a queue."""

    inputs: Mapping[str, Array]
    rows: int
    arrived: float
    done: threading.Event = dataclasses.field(default_factory=threading.Event)
    answer: Answer | None = None
    fault: BaseException | None = None


@dataclasses.dataclass
class _Queue:
    servable: Servable
    signature: Signature
    tasks: deque[_Task] = dataclasses.field(default_factory=deque)
    rows: int = 0


class Batcher:
    """The queues and their threads. A request that cannot share a call (no common first axis, more rows than a batch) is called alone."""

    def __init__(self, parameters: BatchingParameters) -> None:
        self.parameters = parameters
        self._queues: dict[tuple[int, str, object], _Queue] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True) for number in range(parameters.num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finishes what waits, then ends the threads."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def call(self, servable: Servable, signature: Signature, inputs: Mapping[str, Array], *, timeout_s: float | None = None) -> Answer:
        """Calls a signature together with others.

        Raises:
            ServingFault: as of the call itself; RESOURCE_EXHAUSTED when the queue is full, DEADLINE_EXCEEDED when the time is over.
        """
        kind = _kind(inputs)
        if kind is None or kind[0] > self.parameters.max_batch_size or kind[0] < 1:
            return servable.call(signature, inputs)
        task = _Task(inputs, kind[0], time.monotonic())
        with self._changed:
            key = (id(servable), signature.key, kind[1])
            queue = self._queues.setdefault(key, _Queue(servable, signature))
            if queue.rows + task.rows > self.parameters.max_enqueued_batches * self.parameters.max_batch_size:
                raise ServingFault(Code.RESOURCE_EXHAUSTED, "The batch scheduling queue to which this task was submitted is full")
            queue.tasks.append(task)
            queue.rows += task.rows
            self._changed.notify()
        if not task.done.wait(timeout_s):
            raise ServingFault(Code.DEADLINE_EXCEEDED, "Deadline exceeded while the request waited in the batch queue")
        if task.fault is not None:
            raise task.fault
        return task.answer or {}

    def _work(self) -> None:
        while True:
            with self._changed:
                chosen = self._take()
                while chosen is None:
                    if self._stopping:
                        return
                    self._changed.wait(self._patience())
                    chosen = self._take()
            self._answer(*chosen)

    def _patience(self) -> float | None:
        """Seconds until the oldest task is due; None while nothing waits."""
        waiting = [queue.tasks[0].arrived for queue in self._queues.values() if queue.tasks]
        if not waiting:
            return None
        return max(0.0, min(waiting) + self.parameters.batch_timeout_micros / 1e6 - time.monotonic())

    def _take(self) -> tuple[_Queue, list[_Task]] | None:
        """Tasks for one call: of the queue whose first task is due (full, or waited long enough), the one that waited longest."""
        now, patience = time.monotonic(), self.parameters.batch_timeout_micros / 1e6
        ready = [
            (key, queue)
            for key, queue in self._queues.items()
            if queue.tasks and (self._stopping or queue.rows >= self.parameters.max_batch_size or now - queue.tasks[0].arrived >= patience)
        ]
        if not ready:
            return None
        key, queue = min(ready, key=lambda entry: entry[1].tasks[0].arrived)
        tasks, rows = [], 0
        while queue.tasks and rows + queue.tasks[0].rows <= self.parameters.max_batch_size:
            task = queue.tasks.popleft()
            rows += task.rows
            tasks.append(task)
        queue.rows -= rows
        if not queue.tasks:
            del self._queues[key]
        return queue, tasks

    def _answer(self, queue: _Queue, tasks: Sequence[_Task]) -> None:
        try:
            if len(tasks) == 1:
                _settle(tasks[0], lambda: self._call(queue, tasks))
                return
            try:
                answer = self._call(queue, tasks)
            except ServingFault:
                # One bad request must not fail the others: each is asked alone, and gets its own answer.
                for task in tasks:
                    _settle(task, lambda one=task: self._call(queue, [one]))  # type: ignore[misc]  # the default binds the task
                return
            begin = 0
            for task in tasks:
                task.answer = {name: value[begin : begin + task.rows] for name, value in answer.items()}
                begin += task.rows
        finally:
            for task in tasks:
                if task.answer is None and task.fault is None:
                    task.fault = ServingFault(Code.INTERNAL, "the call that this request was part of ended without an answer")
                task.done.set()

    def _call(self, queue: _Queue, tasks: Sequence[_Task]) -> Answer:
        rows = sum(task.rows for task in tasks)
        size = next((size for size in self.parameters.allowed_batch_sizes if size >= rows), rows)
        inputs = {}
        for name in tasks[0].inputs:
            parts = [task.inputs[name] for task in tasks]
            if size > rows:
                parts.append(np.repeat(parts[0][:1], size - rows, axis=0))
            inputs[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        answer = queue.servable.call(queue.signature, inputs)
        odd = [name for name, value in answer.items() if value.ndim < 1 or len(value) != size]
        if odd:
            if len(tasks) == 1 and size == rows:
                return answer
            raise ServingFault(Code.FAILED_PRECONDITION, f"output {odd[0]!r} has no row for each row of the batch; it cannot be batched")
        return {name: value[:rows] for name, value in answer.items()}


def _settle(task: _Task, call: Callable[[], Answer]) -> None:
    try:
        task.answer = call()
    except ServingFault as fault:
        task.fault = fault


def _kind(inputs: Mapping[str, Array]) -> tuple[int, object] | None:
    """(rows, what must be equal to share a call); None where the inputs have no common first axis."""
    if not inputs or any(value.ndim < 1 for value in inputs.values()):
        return None
    rows = {len(value) for value in inputs.values()}
    if len(rows) != 1:
        return None
    return rows.pop(), tuple(sorted((name, str(value.dtype), value.shape[1:]) for name, value in inputs.items()))
