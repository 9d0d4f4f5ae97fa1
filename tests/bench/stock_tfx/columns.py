"""Names and sizes that the stock pipeline's modules share."""

NUMBERS = ("Seniority", "Time", "Age", "Expenses", "Income", "Assets", "Debt", "Amount", "Price")
WORDS = ("Home", "Marital", "Records", "Job")
LABEL = "Status"
POSITIVE = "bad"
BATCH_ROWS = 64
HIDDEN_UNITS = (32, 16)


def transformed(name: str) -> str:
    """Name of a column after Transform."""
    return f"{name}_xf"
