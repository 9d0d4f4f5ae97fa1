"""Protects the forms: a form is good for the login and browser session that it was made for, from this origin, for some hours, once.

Basic authentication sends a login with each request, also with one that another site's page starts. So a form carries a signed token
that names the login and a secret of the session cookie; a token of somebody else, of another session or of no page of ours is refused.
"""

import collections
import http
import secrets
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit

from infra.console.refusal import Refused

LIFETIME_S = 8 * 3600
_SALT = "tandem.form"
_SESSION_KEY = "tandem_form_secret"
_REMEMBERED = 10_000
_STALE = "this form is too old or not of your session; open the page again and send it from there"


class Forms:
    """Makes tokens and checks them.

    Attributes:
        done: the last 10,000 forms that were decided; what was sent twice is decided once.
    """

    def __init__(self, secret: str) -> None:
        from itsdangerous import URLSafeTimedSerializer

        self._signer: Any = URLSafeTimedSerializer(secret, salt=_SALT)
        self.done: collections.OrderedDict[str, None] = collections.OrderedDict()

    def issue(self, login: str, session: MutableMapping[str, Any]) -> str:
        """A token for one form."""
        bound = session.setdefault(_SESSION_KEY, secrets.token_urlsafe(32))
        return str(self._signer.dumps([login, bound, secrets.token_urlsafe(16)]))

    def check(self, token: str, login: str, session: MutableMapping[str, Any]) -> str:
        """The form that a token was made for.

        Raises:
            Refused: it is missing, changed, too old, or was made for another login or session.
        """
        from itsdangerous import BadData

        try:
            owner, bound, form = self._signer.loads(token, max_age=LIFETIME_S)
        except (BadData, ValueError, TypeError) as error:
            raise Refused(http.HTTPStatus.FORBIDDEN, _STALE) from error
        expected = session.get(_SESSION_KEY, "")
        if owner != login or not expected or not secrets.compare_digest(str(bound), str(expected)):
            raise Refused(http.HTTPStatus.FORBIDDEN, _STALE)
        return str(form)

    def remember(self, form: str) -> None:
        """Notes that a form was decided."""
        self.done[form] = None
        while len(self.done) > _REMEMBERED:
            self.done.popitem(last=False)


def require_same_origin(headers: Any, *, host_url: str) -> None:
    """Refuses a form that a page of another origin sent.

    Args:
        headers: of the request.
        host_url: of this server as the request named it.

    Raises:
        Refused: neither Origin nor Referer says that the page was ours.
    """
    stated = headers.get("Origin") or headers.get("Referer") or ""
    if _origin(stated) != _origin(host_url) or not stated:
        raise Refused(http.HTTPStatus.FORBIDDEN, "this was sent from another site; open the page here and send its form from there")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
