"""Who may do what on the pages. MLflow's permission on the registered model `<name>` and the approval rule say it, nothing else does.

| who                                 | MLflow permission on `<name>` | may, on the pages                                             |
|-------------------------------------|-------------------------------|---------------------------------------------------------------|
| reader, auditor                     | READ (everybody's default)    | see and download everything about the model                   |
| trainer                             | EDIT or MANAGE                | and request; and stop: reject, revoke                         |
| approver, where the rule names some | READ or more, and be named    | see; approve, override, reject, revoke what others made       |
| approver, where it names nobody     | EDIT or MANAGE                | approve, override, reject, revoke what others made            |
| anybody else                        | DENY                          | nothing: the model is not shown                               |

An admin of MLflow counts as EDIT and is no approver where the rule names others. Author and requester never count as approvers: the rule of
the ledger sees to that, whoever signs. `<name>-prod` is written by a promotion alone, past this server (see `guards`).
"""

import dataclasses
import http
from typing import Literal

from components.core.approval import ApprovalRule
from components.core.ledger import Kind
from infra.console.refusal import Refused

Permission = Literal["none", "read", "edit"]
_STOPS: frozenset[Kind] = frozenset({"reject", "revoke"})


@dataclasses.dataclass(frozen=True)
class Person:
    """Who is logged in.

    Attributes:
        login: as MLflow checked it.
        admin: of MLflow.
    """

    login: str
    admin: bool


def current_person() -> Person:
    """Who sent this request; MLflow's own check ran before.

    Raises:
        Refused: nobody is logged in.
    """
    from flask import g
    from mlflow.server import auth

    login = getattr(g, "mlflow_authenticated_user", None)
    if not login:
        raise Refused(http.HTTPStatus.UNAUTHORIZED, "log in first")
    return Person(login=login, admin=bool(auth.store.get_user(login).is_admin))


def permission_on(model: str) -> Permission:
    """What the sender of this request may do with a registered model."""
    from mlflow.server import auth

    if current_person().admin:
        return "edit"
    found = auth._get_registered_model_permission(model)
    return "edit" if found.can_update else "read" if found.can_read else "none"


def why_not(kind: Kind, permission: Permission, *, login: str, model: str, rule: ApprovalRule) -> str:
    """Why this login may not decide so on the pages, one line; empty when it may.

    Whether the decision would count is another question, which `components.core.decisions` answers.
    """
    if permission == "none":
        return f"there is no model {model} that you may read"
    grant = f"an admin grants EDIT on {model} in MLflow"
    if kind == "request":
        return "" if permission == "edit" else f"to request a promotion of {model} you need EDIT on it; {grant}"
    if login in rule.approvers or (kind in _STOPS and permission == "edit"):
        return ""
    if rule.approvers:
        return f"only {', '.join(rule.approvers)} may {kind} {model}: pipeline.toml names them as its approvers"
    return "" if permission == "edit" else f"to {kind} {model} you need EDIT on it; {grant}, or pipeline.toml names you as an approver"
