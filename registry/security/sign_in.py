"""Ways in which clients of the API can authenticate, as a registry tells them."""

from __future__ import annotations

from typing import NamedTuple


class Oidc(NamedTuple):
    """The issuer at which users of the console sign in, by the authorization code flow."""

    issuer: str
    client_id: str
    scopes: str
    audience: str  # to ask for; empty: none
    token: str  # that authenticates here: ``access`` or ``id``


class SignIn(NamedTuple):
    """The ways to authenticate that settings turn on."""

    required: bool = False
    basic: bool = False  # a name and a password
    bearer: bool = False  # a token of an issuer
    certificate: bool = False  # of the client, on https listeners
    oidc: Oidc | None = None


NO_SIGN_IN = SignIn()
