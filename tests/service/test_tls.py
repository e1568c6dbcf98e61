"""
HTTPS with a private certificate, and certificates that cannot be used.
"""

from __future__ import annotations

import http.client
import ssl
import subprocess
import sys

import pytest

from tickwheel.scheduler import Scheduler, StoreError
from tickwheel.service import CertificateError, ServiceOptions


def test_https(certificate, start, monkeypatch):
    """
    The service accepts only HTTPS.

    A client that trusts the certificate sets a job, and the job fires.
    """
    cert, key = certificate()
    server = start("--tls-cert", cert, "--tls-key", key)
    url = f"https://{server.host}:{server.port}"
    connection = http.client.HTTPSConnection(
        server.host, server.port, timeout=30, context=ssl.create_default_context(cafile=cert)
    )
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    with pytest.raises((http.client.HTTPException, OSError)):
        server.ask("GET", "/healthz")
    with pytest.raises(StoreError, match=r"is not trusted .* SSL_CERT_FILE"), Scheduler(url):
        pass
    monkeypatch.setenv("SSL_CERT_FILE", cert)
    with Scheduler(url) as client:
        assert client.set("k", delay=0, target="log").outcome == "created"
    assert "k" in server.line_with("fired")


def test_certificates_that_cannot_be_used(certificate, tmp_path):
    """
    The start fails if a certificate file is missing or invalid, or if its key has a password or does not belong to it.
    """
    cert, key = certificate()
    _, other = certificate()
    locked, locked_key = certificate("-passout", "pass:secret")
    empty = tmp_path / "empty.pem"
    empty.touch()
    for files in (
        (str(tmp_path / "no.pem"), key),
        (str(empty), key),
        (cert, other),
        (cert, None),
        (locked, locked_key),
    ):
        with pytest.raises(CertificateError, match=r"pass PEM files of a certificate and its key") as caught:
            ServiceOptions(tls_cert=files[0], tls_key=files[1]).check()
        assert files[0] in str(caught.value)
    with pytest.raises(CertificateError, match="it is the key of no certificate"):
        ServiceOptions(tls_key=key).check()
    command = [sys.executable, "-m", "tickwheel.cli", "serve", "--port", "0", "--tls-cert", str(empty)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode != 0
    assert "cannot be used" in answer.stderr
    assert "Traceback" not in answer.stderr
