"""What a page answers when it does not do what it was asked for."""

import http


class Refused(Exception):
    """A request that is refused; `str(error)` is the one line that is shown.

    Attributes:
        status: of the answer.
    """

    def __init__(self, status: http.HTTPStatus, line: str) -> None:
        super().__init__(line)
        self.status = status


def not_found(what: str) -> Refused:
    """The same answer for what is not there and for what the login may not read."""
    return Refused(http.HTTPStatus.NOT_FOUND, f"there is no {what} that you may read")
