"""The made-up customers of a new use case: the same bytes on every machine, with missing cells, and something to learn."""

import csv
import io
import math
import random

ROWS = 600
SEED = 20240
COLUMNS = ("customer", "months", "tickets", "monthly_fee", "usage_hours", "plan", "region", "cancelled")
MISSING_SHARE = 0.08
_FEES = {"basic": 10.0, "plus": 20.0, "pro": 40.0}
_REGIONS = ("north", "south", "east", "west")


def sample_customers(rows: int = ROWS, seed: int = SEED) -> str:
    """CSV text with a header; about a third of the customers cancels.

    `months` and `tickets` are whole, `monthly_fee` and `usage_hours` decimal, `plan` and `region` text; `usage_hours` and `region` lack
    cells. Only `random.Random.random()` is drawn from, whose sequence Python promises to keep.
    """
    draw = random.Random(seed).random  # noqa: S311 - made-up data, no secret
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number in range(1, rows + 1):
        plan = min(_FEES, key=lambda name: (draw(), name))
        months = int(72 * draw() ** 1.5)
        tickets = int(-2.0 * math.log(1.0 - draw()))
        fee = round(_FEES[plan] * (0.8 + 0.4 * draw()), 2)
        usage = round(-30.0 * math.log(1.0 - draw()), 1)
        region = _REGIONS[int(draw() * len(_REGIONS))]
        logit = -0.2 - 0.07 * (months - 24) + 0.7 * (tickets - 2) - 0.04 * (usage - 30) + 0.05 * (fee - 20)
        logit += 0.8 if region == "north" else -0.3
        cancelled = draw() < 1.0 / (1.0 + math.exp(-1.6 * logit))
        shown_usage = "" if draw() < MISSING_SHARE else usage
        shown_region = "" if draw() < MISSING_SHARE else region
        writer.writerow([number, months, tickets, fee, shown_usage, plan, shown_region, "yes" if cancelled else "no"])
    return text.getvalue()
