"""Slices against hand-made scores."""

import numpy as np

from components.auditor.slices import WHOLE, decision_changes


def test_rows_that_candidate_and_champion_decide_differently():
    ours, theirs = np.array([0.9, 0.5, 0.4, 0.2, np.nan, 0.6]), np.array([0.1, 0.5, 0.6, 0.3, 0.9, 0.4])
    rows = {WHOLE: np.arange(6), ("Home", "owner"): np.array([0, 2]), ("Home", "rent"): np.array([1, 3, 4])}
    found = decision_changes(ours, theirs, rows, threshold=0.5)
    assert [(change.key, change.value, change.size, change.to_positive, change.to_negative) for change in found] == [
        ("", "", 6, 2, 1),
        ("Home", "owner", 2, 1, 1),
        ("Home", "rent", 3, 0, 0),
    ]
