"""Requests that come at the same time share one call: a queue for each signature of a version, and threads that take from all of them."""

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from infra.serving.model_server.batching_parameters import BatchingParameters
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.metrics import Metrics
from infra.serving.model_server.servable import Servable, Signature
from infra.serving.model_server.session import Array

Answer = dict[str, Array]
LOG = logging.getLogger("tandem.serve")


@dataclasses.dataclass(eq=False)
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
    """What waits for calls of one signature of one version, with inputs that fit together."""

    servable: Servable
    signature: Signature
    tasks: deque[_Task] = dataclasses.field(default_factory=deque)
    rows: int = 0


class Batcher:
    """The queues and their threads.

    A request whose inputs have no common first axis cannot share a call and is called alone.
    """

    def __init__(self, parameters: BatchingParameters, metrics: Metrics | None = None) -> None:
        self.parameters = parameters
        self._metrics = metrics or Metrics()
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

    def waiting_rows(self) -> int:
        """Rows in all queues."""
        with self._changed:
            return sum(queue.rows for queue in self._queues.values())

    def call(self, servable: Servable, signature: Signature, inputs: Mapping[str, Array], *, timeout_s: float | None = None) -> Answer:
        """Calls a signature together with others.

        Raises:
            ServingFault: as of the call itself; INVALID_ARGUMENT for more rows than a batch holds, RESOURCE_EXHAUSTED when the queue is
                full, DEADLINE_EXCEEDED when the time is over.
        """
        kind = _kind(inputs, padded=self.parameters.pad_variable_length_inputs)
        if kind is None or kind[0] < 1 or self._stopping:
            return servable.call(signature, inputs)
        largest = self.parameters.max_batch_size
        if kind[0] > largest:
            raise invalid(f"Task size {kind[0]} is larger than maximum input batch size {largest}")
        task = _Task(inputs, kind[0], time.monotonic())
        with self._changed:
            key = (id(servable), signature.key, kind[1])
            queue = self._queues.setdefault(key, _Queue(servable, signature))
            if queue.rows + task.rows > self.parameters.max_enqueued_batches * largest:
                raise ServingFault(Code.RESOURCE_EXHAUSTED, "The batch scheduling queue to which this task was submitted is full")
            queue.tasks.append(task)
            queue.rows += task.rows
            self._changed.notify()
        if not task.done.wait(timeout_s):
            self._withdraw(key, task)
            raise ServingFault(Code.DEADLINE_EXCEEDED, "Run() timeout exceeded while waiting in batching queue")
        if task.fault is not None:
            raise task.fault
        return task.answer or {}

    def _withdraw(self, key: tuple[int, str, object], task: _Task) -> None:
        """Takes back a request that nobody waits for any more, if no call has begun with it."""
        with self._changed:
            queue = self._queues.get(key)
            if queue is not None and task in queue.tasks:
                queue.tasks.remove(task)
                queue.rows -= task.rows
                if not queue.tasks:
                    del self._queues[key]

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
            # Between two calls a thread holds on to no version: one that is unloaded meanwhile must go.
            del chosen

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
        self._metrics.batch(rows, [now - task.arrived for task in tasks])
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
        except Exception as error:
            # The thread lives on, whatever it was; who waits gets an answer.
            LOG.exception("a batch of %d requests failed: %s", len(tasks), type(error).__name__)
            for task in tasks:
                if task.answer is None and task.fault is None:
                    task.fault = ServingFault(Code.INTERNAL, "the server failed on this request; its log says why")
        finally:
            for task in tasks:
                task.done.set()

    def _call(self, queue: _Queue, tasks: Sequence[_Task]) -> Answer:
        rows = sum(task.rows for task in tasks)
        size = next((size for size in self.parameters.allowed_batch_sizes if size >= rows), rows)
        inputs = {}
        for name in tasks[0].inputs:
            parts = _padded([task.inputs[name] for task in tasks])
            if size > rows:
                parts.append(np.repeat(parts[0][:1], size - rows, axis=0))
            inputs[name] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        answer = queue.servable.call(queue.signature, inputs)
        odd = next((value for value in answer.values() if value.ndim < 1 or len(value) != size), None)
        if odd is not None:
            if len(tasks) == 1 and size == rows:
                return answer
            raise ServingFault(
                Code.FAILED_PRECONDITION,
                "Batched output tensor has 0 dimensions"
                if odd.ndim < 1
                else "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input tensors",
            )
        return {name: value[:rows] for name, value in answer.items()}


def _settle(task: _Task, call: Callable[[], Answer]) -> None:
    try:
        task.answer = call()
    except ServingFault as fault:
        task.fault = fault


def _padded(parts: list[Array]) -> list[Array]:
    """Makes the rows of all parts equally large: at the end of each axis but the first, with the first value of the part."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) == 1:
        return parts
    largest = [max(sizes) for sizes in zip(*shapes, strict=True)]
    made = []
    for part in parts:
        lacking = [(0, 0), *((0, size - given) for size, given in zip(largest, part.shape[1:], strict=True))]
        if not part.size:
            raise invalid("Got empty tensor in batch of non-empty tensors.")
        made.append(np.pad(part, lacking, constant_values=part.flat[0]))
    return made


def _kind(inputs: Mapping[str, Array], *, padded: bool) -> tuple[int, object] | None:
    """(rows, what must be equal to share a call); None where the inputs have no common first axis."""
    if not inputs or any(value.ndim < 1 for value in inputs.values()):
        return None
    rows = {len(value) for value in inputs.values()}
    if len(rows) != 1:
        return None
    return rows.pop(), tuple(sorted((name, str(value.dtype), value.ndim if padded else value.shape[1:]) for name, value in inputs.items()))
