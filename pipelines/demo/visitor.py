"""A login of the console: opens pages, reads what they offer, sends their forms; a browser without JavaScript."""

import html.parser
import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from components.core.errors import ServingError

_TIMEOUT_S = 60.0


class _Page(html.parser.HTMLParser):
    """What matters of a page: forms with their hidden fields, by the decision that they send, and lines by their class."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self.lines: dict[str, list[str]] = {"unable": [], "pill": [], "fault": []}
        self._form: dict[str, str] | None = None
        self._into: tuple[str, str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects."""
        found = {name: value or "" for name, value in attrs}
        words = found.get("class", "").split()
        if tag == "form":
            self._form = {}
        if tag == "input" and self._form is not None and "name" in found:
            self._form[found["name"]] = found.get("value", "")
            self.forms[self._form.get("kind", "")] = self._form
        kind = next((word for word in words if word in self.lines), None)
        if kind is not None and self._into is None:
            self.lines[kind].append("")
            self._into = kind, tag

    def handle_endtag(self, tag: str) -> None:
        """Closes what was open."""
        if tag == "form":
            self._form = None
        if self._into is not None and tag == self._into[1]:
            lines = self.lines[self._into[0]]
            lines[-1] = " ".join(lines[-1].split())
            self._into = None

    def handle_data(self, data: str) -> None:
        """Collects text."""
        if self._into is not None:
            lines = self.lines[self._into[0]]
            lines[-1] += data


class Visitor:
    """One person at the console.

    Attributes:
        login: of MLflow's basic authentication.
    """

    def __init__(self, address: str, login: str, password: str) -> None:
        self.login, self._address = login, address
        self._authorization = "Basic " + b64encode(f"{login}:{password}".encode()).decode()
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)

    def status(self, candidate: str) -> str:
        """Where a candidate stands, as its page says."""
        return next(iter(self._page(candidate).lines["pill"]), "")

    def refusals(self, candidate: str) -> list[str]:
        """What this login cannot do with a candidate, and why, as its page says."""
        return self._page(candidate).lines["unable"]

    def decide(self, candidate: str, kind: str, reason: str) -> str:
        """Opens the page and sends the form; where the candidate stands then.

        Raises:
            ServingError: the page has no such form, or what was sent was refused.
        """
        form = self._page(candidate).forms.get(kind)
        if form is None:
            raise ServingError(f"the page of {candidate} offers {self.login} no {kind}: {'; '.join(self.refusals(candidate)) or 'no form'}")
        code, text = self._ask("POST", _path(candidate), urllib.parse.urlencode({**form, "reason": reason}).encode())
        if code != 200:
            raise ServingError(f"{kind} of {candidate} by {self.login} was refused: {' '.join(_Page(text).lines['fault']) or code}")
        return self.status(candidate)

    def api(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
        """Calls MLflow's API; status and the message of its answer."""
        code, text = self._ask(method, path, json.dumps(body).encode(), kind="application/json")
        try:
            answer = json.loads(text)
        except ValueError:
            return code, text.strip()[:300]
        return code, str(answer.get("message", "")) if isinstance(answer, dict) else ""

    def _page(self, candidate: str) -> _Page:
        code, text = self._ask("GET", _path(candidate))
        if code != 200:
            raise ServingError(f"the page of {candidate} answers {self.login} with {code}: {' '.join(_Page(text).lines['fault'])}")
        return _Page(text)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, *, kind: str = "application/x-www-form-urlencoded"
    ) -> tuple[int, str]:
        headers = {"Authorization": self._authorization, "Origin": self._address, **({"Content-Type": kind} if body else {})}
        request = urllib.request.Request(self._address + path, data=body, headers=headers, method=method)  # noqa: S310 - http, ours
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                return answer.status, answer.read().decode("utf-8", errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode("utf-8", errors="replace")
        except OSError as error:
            raise ServingError(f"the console at {self._address} does not answer: {error}") from error


def _path(candidate: str) -> str:
    return f"/tandem/models/{candidate}"
