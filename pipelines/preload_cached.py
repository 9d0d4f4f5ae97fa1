"""Loaded by the forkserver of a run in which every stage is expected in the cache: half of the imports, half of the time.

TFX looks for torch while it loads, though it does without: that alone would cost a fifth of the run. It does not find it here. A stage
that has to execute after all imports torch in its own process.
"""

from pipelines.preloading import LAUNCHING, preload

preload(LAUNCHING, hidden="torch")
