"""What holds for each page of ours: a login, and headers that leave a browser nothing to run, frame or leak."""

from collections.abc import Callable
from typing import Any

from infra.console.access import current_person
from infra.console.forms import require_same_origin

PREFIX = "/tandem"
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; script-src 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
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


class Validators(dict[tuple[str, str], Callable[[], bool]]):
    """MLflow's table of (path, method) -> whether a login may, which refuses what it does not know; with our pages in it.

    MLflow looks paths up as they are, and ours hold names of models. Here each login may: the pages themselves ask, by model.
    """

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        """The validator of a request."""
        return (lambda: True) if is_ours(key[0]) else super().get(key, default)


def require_own_page() -> None:
    """Refuses a page of ours where MLflow's check did not leave a login, and to a script of another origin.

    MLflow lets a path pass that it takes for a public one, and it may come to think so of another path in another release. And it lets the
    scripts of any port of this machine read its answers with the login of the person in front of it; here that would be our forms.

    Raises:
        Refused: nobody is logged in, or the request was made by a page of another origin.
    """
    from flask import request

    if not is_ours(request.path):
        return
    current_person()
    if "Origin" in request.headers:
        require_same_origin(request.headers, host_url=request.host_url)


def protect(response: Any) -> Any:
    """Adds the headers to the answers of our pages."""
    from flask import request

    if is_ours(request.path):
        for name, value in _HEADERS.items():
            response.headers[name] = value
    return response
