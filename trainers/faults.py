"""Turns what happens during training into one clear error, and signals into an interrupt."""

import contextlib
import importlib.util
import re
import signal
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from components.core.errors import TandemError, TrainingError

_TEXT_LIMIT = 400
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
# Keras puts the layer's name before a model's own words, and all arguments of the call after them.
_KERAS_WRAPPING = re.compile(r"Exception encountered when calling .*?\(\)\.\s*(.*?)\s*Arguments received", re.DOTALL)


def one_line(error: BaseException) -> str:
    """Type and text of an exception on one line, at most 400 characters of text."""
    text = _COLOUR.sub("", str(error))
    wrapped = _KERAS_WRAPPING.search(text)
    text = " ".join((wrapped[1] if wrapped else text).split())
    return f"{type(error).__name__}: {text[:_TEXT_LIMIT]}{'...' if len(text) > _TEXT_LIMIT else ''}"


@contextlib.contextmanager
def model_faults(stage: str, module: str, doing: str) -> Iterator[None]:
    """Reports an exception of a model's code as a TrainingError with the file and line where it arose.

    Faults of files, memory and stores pass unchanged: the model is not to blame for them.

    Args:
        stage: named in the message.
        module: dotted path of the use case's model module.
        doing: what was being done, e.g. `building the model`.

    Raises:
        TrainingError: the model's code raised; the original exception is chained.
    """
    try:
        yield
    except (TandemError, OSError, MemoryError):
        raise
    except Exception as error:
        if _passes_through(error, "components/core/tracking.py"):
            raise
        place = _model_line(error, module)
        where = f"{place}: " if place else f"the model of {module} failed: "
        raise TrainingError(
            f"{stage}: {where}{one_line(error)} (while {doing}); correct the model and run again, finished stages come from the cache"
        ) from error


def _passes_through(error: BaseException, path_end: str) -> bool:
    return any(frame.filename.endswith(path_end) for frame in traceback.extract_tb(error.__traceback__))


def _model_line(error: BaseException, module: str) -> str | None:
    """`file:line` of the innermost frame inside the folder of `module`, along the chain of causes."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).resolve().parent
    chained: BaseException | None = error
    while chained is not None:
        for frame in reversed(traceback.extract_tb(chained.__traceback__)):
            if Path(frame.filename).resolve().is_relative_to(folder):
                return f"{frame.filename}:{frame.lineno}"
        chained = chained.__cause__ or chained.__context__
    return None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt inside, as Ctrl-C does; afterwards both signals do what they did before.

    Outside the main thread signals cannot be set, and nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        for number, action in before.items():
            if action is not None:
                signal.signal(number, action)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(f"signal {signal.Signals(number).name}")
