"""What a model server answers when it refuses: gRPC's status codes, and the HTTP codes that TensorFlow Serving maps them to."""

import enum


class Code(enum.Enum):
    """Status of an answer: gRPC's number and the HTTP code (TensorFlow Serving, `util/net_http`: ToHTTPStatusCode)."""

    OK = (0, 200)
    CANCELLED = (1, 499)
    UNKNOWN = (2, 500)
    INVALID_ARGUMENT = (3, 400)
    DEADLINE_EXCEEDED = (4, 504)
    NOT_FOUND = (5, 404)
    ALREADY_EXISTS = (6, 409)
    PERMISSION_DENIED = (7, 403)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    ABORTED = (10, 409)
    OUT_OF_RANGE = (11, 400)
    UNIMPLEMENTED = (12, 501)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)
    DATA_LOSS = (15, 500)
    UNAUTHENTICATED = (16, 401)

    @property
    def number(self) -> int:
        """Of gRPC and of TensorFlow's C interface."""
        return self.value[0]

    @property
    def http(self) -> int:
        """Of REST answers."""
        return self.value[1]


BY_NUMBER = {code.number: code for code in Code}


class ServingFault(Exception):
    """An answer that is a refusal.

    Attributes:
        code: why.
        message: what the caller is told.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def invalid(message: str) -> ServingFault:
    """A request that cannot be answered as it is."""
    return ServingFault(Code.INVALID_ARGUMENT, message)
