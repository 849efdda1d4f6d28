"""The certificate and private key of an HTTPS server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from holdfast.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate and key files that were checked before the server starts."""

    certificate: Path
    #: None when the key is in the certificate file.
    key: Path | None

    @classmethod
    def checked(cls, certificate: Path | None, key: Path | None) -> TlsFiles | None:
        """Returns the files, or None without a certificate. Raises SettingsError for files that cannot be used."""
        if certificate is None:
            if key is not None:
                raise SettingsError("--tls-key is set without a certificate: set --tls-cert, too.")
            return None
        files = cls(certificate, key)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse_encrypted)
        except _Encrypted:
            raise SettingsError(f"The key in {key or certificate} is encrypted: provide an unencrypted key.") from None
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
            names = f"{certificate} and {key}" if key else f"{certificate}"
            raise SettingsError(
                f"{names} cannot be used as certificate and key: {reason or error}. Both must be PEM."
            ) from error
        return files


class _Encrypted(Exception):
    """Raised when OpenSSL asks for a password, as it would otherwise prompt on the terminal."""


def _refuse_encrypted() -> NoReturn:
    raise _Encrypted
