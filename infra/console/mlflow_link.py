"""A way from MLflow's pages to ours: one plain link in the page that MLflow's server sends, without touching MLflow's files."""

from typing import Any

_LINK = (
    b'<a href="/tandem/" id="tandem-decisions" style="position:fixed;right:16px;bottom:16px;z-index:2147483000;padding:8px 14px;'
    b"border-radius:6px;background:#14365c;color:#fff;font:600 13px/1.2 system-ui,sans-serif;text-decoration:none;"
    b'box-shadow:0 1px 4px rgba(0,0,0,.35)">Decisions</a>'
)
_END = b"</body>"


def add_link(response: Any) -> Any:
    """Puts the link at the end of MLflow's page; any other answer stays as it is."""
    from flask import request

    if request.path != "/" or response.status_code != 200 or response.mimetype != "text/html":
        return response
    response.direct_passthrough = False
    page = response.get_data()
    if _END in page:
        response.set_data(page.replace(_END, _LINK + _END, 1))
        # The tag and the date are those of the file without the link: a browser must not take its old copy for this page.
        for name in ("ETag", "Last-Modified"):
            response.headers.pop(name, None)
    return response
