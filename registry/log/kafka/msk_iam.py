"""AWS MSK IAM: tokens for OAUTHBEARER that AWS's signer derives from the AWS credentials of this host."""

from __future__ import annotations

import os
import time
from importlib.util import find_spec

from registry.log.contract import LogError

from .security import Security
from .tokens import Token, TokenUnavailable

_SEE = "see kafka_sasl_aws_region, and the AWS credentials of this host (environment, profile or role)"


def check_signer() -> None:
    """Raise :class:`.contract.LogError` if the signer is not installed."""
    if find_spec("aws_msk_iam_sasl_signer") is None:
        raise LogError(
            "kafka_sasl_mechanism = AWS_MSK_IAM needs the Python package aws-msk-iam-sasl-signer-python: "
            "install the extra kafka-registrar[aws], see docs/install.md"
        )


def sign_token(security: Security) -> Token:
    """Return a token: a presigned URL. Raises :class:`.tokens.TokenUnavailable`.

    It may take long, because AWS's library can fetch credentials over the network.
    """
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415 (an extra)

    region = (
        security.sasl_aws_region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    )
    if not region:
        raise TokenUnavailable(f"no AWS region is known for AWS_MSK_IAM; {_SEE}")
    try:
        text, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as error:  # botocore's errors have no common base
        raise TokenUnavailable(f"no token for AWS_MSK_IAM: {error}; {_SEE}") from error
    return Token(text, expires_ms / 1000 - time.time())
