"""The routing hook for clients in Kubernetes: keeps the routing record in a ConfigMap. Needs Python alone.

`GET /route` returns the record (404: none yet); `PUT /route` replaces it, if its version is the next one. The key
`bootstrap.servers` beside it is what clients' pods take.

Environment: CONFIG_MAP, NAMESPACE; TOKEN_FILE (the bearer token of Switchback's connection); PORT; CERTIFICATE, KEY
(files in PEM; without them the hook serves plain HTTP); SERVICE_ACCOUNT (folder of token and ca.crt).
"""

from __future__ import annotations

import hmac
import json
import os
import ssl
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
RECORD, SERVERS = "route.json", "bootstrap.servers"
FIELDS = {"cluster": str, "bootstrap_servers": str, "version": int}
API_SECONDS, TRIES = 4.0, 3


class Refused(Exception):
    """A request that is answered with an error status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def send_to_api(method: str, body: Any = None) -> dict[str, Any]:
    """Send a request about the ConfigMap; return the ConfigMap.

    Raises:
        Refused: 409 if the ConfigMap has another `resourceVersion`, else 502, with what the API said.
    """
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    url = f"https://{host}:{port}/api/v1/namespaces/{os.environ['NAMESPACE']}/configmaps/{os.environ['CONFIG_MAP']}"
    # The token is replaced while the pod runs.
    headers = {"Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}"}
    headers |= {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, headers, method=method)
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
    try:
        with opener.open(request, timeout=API_SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = error.read(500).decode("utf-8", "replace")
        raise Refused(409 if error.code == 409 else 502, f"Kubernetes answered {error.code}: {said}") from None
    except (OSError, ValueError) as error:
        raise Refused(502, f"no usable answer of Kubernetes: {error}") from None


def record_of(config_map: dict[str, Any]) -> dict[str, Any] | None:
    """Return the routing record in a ConfigMap; None if it has none."""
    text = (config_map.get("data") or {}).get(RECORD)
    return None if text is None else json.loads(text)


def replace_record(wanted: Any) -> dict[str, Any]:
    """Write the next routing record; return it.

    Kubernetes takes the patch only while the ConfigMap is the one that was read: so of two writers one is refused.

    Raises:
        Refused: the record is not the next one (409) or incomplete (400), or Kubernetes does not take it.
    """
    if not isinstance(wanted, dict) or any(type(wanted.get(name)) is not kind for name, kind in FIELDS.items()):
        raise Refused(400, f"a routing record has {', '.join(FIELDS)}")
    for left in reversed(range(TRIES)):
        config_map = send_to_api("GET")
        version = (record_of(config_map) or {"version": 0})["version"]
        if wanted["version"] != version + 1:
            raise Refused(409, f"the record has version {version}; {wanted['version']} does not follow it")
        data = {RECORD: json.dumps(wanted, indent=2), SERVERS: wanted["bootstrap_servers"]}
        basis = {"resourceVersion": config_map["metadata"]["resourceVersion"]}
        try:
            send_to_api("PATCH", {"metadata": basis, "data": data})
            break
        except Refused as refused:
            # Something else in the ConfigMap may have changed, such as a label: then the record is still the former.
            if refused.status != 409 or not left:
                raise
    return wanted


class RouteHandler(BaseHTTPRequestHandler):
    """Answers GET and PUT of /route for whoever shows the token."""

    timeout = 10

    def do_GET(self) -> None:
        """Return the record."""
        self.answer_for(lambda _: record_of(send_to_api("GET")))

    def do_PUT(self) -> None:
        """Replace the record."""
        self.answer_for(replace_record)

    def require_token_and_path(self) -> None:
        """Refuse a request without the token (401), and one for another path (404)."""
        shown, known = self.headers.get("Authorization") or "", Path(os.environ["TOKEN_FILE"]).read_text().strip()
        if not known or not hmac.compare_digest(shown.encode(), f"Bearer {known}".encode()):
            raise Refused(401, "the token is missing or wrong")
        if self.path != "/route":
            raise Refused(404, "only /route is served")

    def answer_for(self, act: Any) -> None:
        """Act, and answer with what it returned: 404 for None."""
        try:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.require_token_and_path()
            done = act(json.loads(content) if content else None)
            status, document = (404, {"detail": "no routing record yet"}) if done is None else (200, done)
        except Refused as refused:
            status, document = refused.status, {"detail": str(refused)}
        except ValueError as error:
            status, document = 400, {"detail": f"not JSON: {error}"}
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until the process is ended."""
    server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8443"))), RouteHandler)
    if certificate := os.environ.get("CERTIFICATE"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, os.environ["KEY"])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
