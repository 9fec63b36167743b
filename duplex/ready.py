"""`duplex ready`: ask the server of a configuration, on this machine, whether it can serve; for health checks."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

from duplex.config import ServerSettings
from duplex.server.serve import url_of


def why_not_ready(settings: ServerSettings, timeout_s: float) -> str | None:
    """Return what keeps the server from serving; None: it is ready.

    The certificate is not checked: the server may have signed it itself, and nothing but a question is sent.

    Args:
        settings: says where the server listens, and whether over TLS.
        timeout_s: longest wait for the answer.
    """
    encrypted = settings.tls or settings.tls_certificate is not None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = url_of("https" if encrypted else "http", settings.host, settings.port) + "/readyz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"{url}: {_status(error)}"
    except OSError as error:
        return f"{url}: {getattr(error, 'reason', error)}"


def _status(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(4096))["status"])
    except (ValueError, KeyError, TypeError):
        return f"answered {error.code}"
