"""What holds for each page of ours: a login, and headers that leave a browser nothing to run, frame or leak."""

from typing import Any

from infra.console.access import current_person

PREFIX = "/tandem"
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; script-src 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: a form sent under that has the Origin `null`, which cannot be told from a foreign one.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Cache-Control": "no-store",
}


def is_ours(path: str) -> bool:
    """Whether a path is one of Tandem's."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def require_login() -> None:
    """Refuses a page of ours where MLflow's check did not leave a login.

    MLflow lets a path pass that it takes for a public one, and it may come to think so of another path in another release.

    Raises:
        Refused: nobody is logged in.
    """
    from flask import request

    if is_ours(request.path):
        current_person()


def protect(response: Any) -> Any:
    """Adds the headers to the answers of our pages."""
    from flask import request

    if is_ours(request.path):
        for name, value in _HEADERS.items():
            response.headers[name] = value
    return response
