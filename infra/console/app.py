"""`mlflow server --app-name tandem`: MLflow's pages and API, and Tandem's pages, under MLflow's one login.

The interface is MLflow's own and experimental: an entry point of the group `mlflow.app` names a factory, which adds to `mlflow.server.app`
what it likes and gives it to `mlflow.server.auth.create_app`. tests/integration/console holds what is relied on.
"""

import os
from typing import Any

from components.core.errors import ConfigError
from infra.console.settings import read_settings

SECRET_VARIABLE = "MLFLOW_FLASK_SERVER_SECRET_KEY"  # noqa: S105 - the name of a variable, no secret


def create_app() -> Any:
    """The application that MLflow serves.

    Raises:
        ConfigError: TANDEM_CONSOLE or the secret of the sessions is missing.
        StoreError: the ledger or the registry cannot be used.
    """
    from mlflow.server import app, auth

    from infra.console.console import EXTENSION, Console
    from infra.console.guards import guard, stamp_author
    from infra.console.mlflow_link import add_link
    from infra.console.pages import pages
    from infra.console.protection import Validators, protect, require_own_page

    secret = os.environ.get(SECRET_VARIABLE, "")
    if not secret:
        raise ConfigError(f"{SECRET_VARIABLE} is not set; start the console by `tandem ui`")
    app.extensions[EXTENSION] = Console.open(read_settings(), secret)
    # The browser keeps cookies by host, not by port: another MLflow on this machine must not overwrite ours.
    app.config.update(SESSION_COOKIE_NAME="tandem_session", SESSION_COOKIE_SAMESITE="Strict", SESSION_COOKIE_HTTPONLY=True)
    app.register_blueprint(pages)
    auth.BEFORE_REQUEST_VALIDATORS = Validators(auth.BEFORE_REQUEST_VALIDATORS)
    served = auth.create_app(app)
    # Behind MLflow's own check, so that these know who is logged in.
    app.before_request(require_own_page)
    app.before_request(guard)
    app.after_request(stamp_author)
    app.after_request(add_link)
    app.after_request(protect)
    return served
