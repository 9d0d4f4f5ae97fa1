"""Loaded by the forkserver of a run in which stages execute: everything that any of them needs."""

from pipelines.preloading import EXECUTING, LAUNCHING, preload

preload([*LAUNCHING, *EXECUTING])
