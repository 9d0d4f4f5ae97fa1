"""What a page shows when it cannot do what it was asked for: one line and a status, never a traceback."""

import http
import logging
from typing import Any

from flask import Blueprint, render_template
from werkzeug.exceptions import HTTPException

from components.core.errors import DecisionError, RegistryError, TandemError
from infra.console.refusal import Refused

_log = logging.getLogger(__name__)


def add_faults(pages: Blueprint) -> None:
    """Adds the handlers."""
    pages.register_error_handler(Refused, _refused)
    pages.register_error_handler(TandemError, _faulty)
    pages.register_error_handler(HTTPException, _http)
    pages.register_error_handler(Exception, _unexpected)


def _refused(error: Refused) -> Any:
    return _answer(error.status, str(error))


def _faulty(error: TandemError) -> Any:
    statuses = {DecisionError: http.HTTPStatus.CONFLICT, RegistryError: http.HTTPStatus.NOT_FOUND}
    return _answer(statuses.get(type(error), http.HTTPStatus.SERVICE_UNAVAILABLE), str(error))


def _http(error: HTTPException) -> Any:
    if error.code is None or error.code < http.HTTPStatus.BAD_REQUEST:
        return error
    return _answer(http.HTTPStatus(error.code), "this page takes no such request")


def _unexpected(error: Exception) -> Any:
    _log.error("a page of the console failed", exc_info=error)
    return _answer(http.HTTPStatus.INTERNAL_SERVER_ERROR, "this page failed; the server's log (ui.log in the home folder) says why")


def _answer(status: http.HTTPStatus, line: str) -> Any:
    return render_template("tandem/fault.html", status=status, line=line), status
