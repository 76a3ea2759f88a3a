"""The example for Kubernetes: its program and its rights, with the product's routing, on an API like Kubernetes'.

The API is the test's own server: TLS, the service account's token, rights as the manifest's Role grants them, merge
patches that are conditional on `resourceVersion`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from kafka_dr.errors import HookUnavailable
from kafka_dr.hooks.http_tls import HttpTls
from kafka_dr.hooks.site.routing import ClientRoute, HttpRouting

from lab.environment.ports import free_ports
from lab.environment.production.certificates import LabAuthority
from tests.support.json_server import JsonHandler, served_over_tls

EXAMPLE = Path(__file__).parents[2] / "runbooks" / "examples" / "kubernetes"
MANIFESTS = [one for one in yaml.safe_load_all((EXAMPLE / "route-hook.yaml").read_text()) if one]
NAMESPACE = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())["namespace"]
EAST, WEST = ClientRoute("east", "e1:9092"), ClientRoute("west", "w1:9092,w2:9092")
TOKEN = "token-of-switchback"


def manifest(kind: str, name: str) -> dict[str, Any]:
    """Return one object of the manifest."""
    (found,) = [one for one in MANIFESTS if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


class Kubernetes:
    """The API server's state: one ConfigMap, and what was asked."""

    def __init__(self) -> None:
        self.account_token = "token-of-the-service-account"
        self.object: dict[str, Any] | None = deepcopy(manifest("ConfigMap", "kafka-route"))
        self.object["metadata"]["resourceVersion"] = "100"
        self.asked: list[str] = []
        self.before_patch: Callable[[], None] = lambda: None
        self.lock = threading.Lock()

    def change(self, **data: str) -> None:
        """Change the ConfigMap as another program does."""
        self.object["data"] = {**self.object.get("data", {}), **data}
        self.object["metadata"]["resourceVersion"] = str(int(self.object["metadata"]["resourceVersion"]) + 1)

    def answer(self, method: str, path: str, headers: Any, body: Any) -> tuple[int, Any]:
        """Answer as the API server does."""
        verb = {"GET": "get", "PATCH": "patch", "PUT": "update", "POST": "create"}[method]
        self.asked.append(verb)
        if headers.get("Authorization") != f"Bearer {self.account_token}":
            return 401, {"kind": "Status", "message": "Unauthorized"}
        resource, _, name = path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/").partition("/")
        rules = manifest("Role", "route-hook")["rules"]
        if not any(
            resource in rule["resources"] and name in rule["resourceNames"] and verb in rule["verbs"] for rule in rules
        ):
            return 403, {"kind": "Status", "message": f"cannot {verb} {path}"}
        if verb == "patch":
            self.before_patch()
        with self.lock:
            if self.object is None:
                return 404, {"kind": "Status", "message": f"configmaps {name!r} not found"}
            return self._patched(headers, body) if verb == "patch" else (200, self.object)

    def _patched(self, headers: Any, body: Any) -> tuple[int, Any]:
        if headers.get("Content-Type") != "application/merge-patch+json":
            return 415, {"kind": "Status", "message": "unsupported media type"}
        if body["metadata"].pop("resourceVersion", self._version) != self._version:
            return 409, {"kind": "Status", "message": "the object has been modified"}
        assert body["metadata"] == {}
        self.change(**body["data"])
        return 200, self.object

    @property
    def _version(self) -> str:
        return self.object["metadata"]["resourceVersion"]

    @property
    def record(self) -> dict[str, Any]:
        """The routing record in the ConfigMap."""
        return json.loads(self.object["data"]["route.json"])


class Hook:
    """The example's program, with what a pod has."""

    def __init__(self, folder: Path, authority: LabAuthority, api: str) -> None:
        self.account = folder / "account"
        self.account.mkdir()
        (self.account / "ca.crt").write_bytes(authority.certificate.read_bytes())
        (folder / "token").write_text(TOKEN + "\n")
        files, port = authority.files_of("hook"), free_ports(["hook"])["hook"]
        host, _, api_port = api.removeprefix("https://").partition(":")
        deployment = manifest("Deployment", "route-hook")["spec"]["template"]["spec"]["containers"][0]
        stated = {one["name"]: one.get("value") for one in deployment["env"]}
        given = {"NAMESPACE": NAMESPACE, "TOKEN_FILE": str(folder / "token"), "PORT": str(port)}
        given |= {"CERTIFICATE": str(files.certificate), "KEY": str(files.key)}
        assert set(given) < set(stated)
        given |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": api_port}
        given |= {"SERVICE_ACCOUNT": str(self.account), "CONFIG_MAP": stated["CONFIG_MAP"]}
        self.url, self._trust = f"https://127.0.0.1:{port}", str(authority.certificate)
        self._program = subprocess.Popen(
            [sys.executable, "-I", str(EXAMPLE / "route_hook.py")], env={"PATH": os.environ["PATH"], **given}
        )
        ends_at = time.monotonic() + 30
        while self.send("GET", token="").status_code != 401:
            assert time.monotonic() < ends_at

    def send(self, method: str, path: str = "/route", token: str = TOKEN, **given: Any) -> requests.Response:
        """Send a request past the product."""
        for _ in range(100):
            try:
                headers = {"Authorization": f"Bearer {token}"}
                return requests.request(
                    method, self.url + path, headers=headers, verify=self._trust, timeout=20, **given
                )
            except requests.ConnectionError:
                assert self._program.poll() is None
                time.sleep(0.1)
        raise AssertionError("the program does not listen")

    def routing(self, token: str = TOKEN) -> HttpRouting:
        """The product's own client of the hook."""
        return HttpRouting(self.url, tls=HttpTls(verify=self._trust, token=token))

    def stop(self) -> None:
        """End the program."""
        self._program.kill()
        self._program.wait()


@pytest.fixture
def kubernetes() -> Kubernetes:
    """The API's state."""
    return Kubernetes()


@pytest.fixture
def hook(kubernetes: Kubernetes, tmp_path: Path) -> Iterator[Hook]:
    """The program and the API, both over TLS."""
    authority = LabAuthority(tmp_path / "certificates")
    authority.create_once()
    for name in ("api", "hook"):
        authority.issue_once(name)

    class Api(JsonHandler):
        """Passes requests on."""

        def do_GET(self) -> None:  # noqa: N802 (http.server calls it so)
            """Pass on."""
            content = self.content()
            body = json.loads(content) if content else None
            self.answer(*kubernetes.answer(self.command, self.path, self.headers, body))

        do_PATCH = do_PUT = do_POST = do_GET

    with served_over_tls(authority.files_of("api"), handler=Api) as address:
        made = Hook(tmp_path, authority, address)
        try:
            (made.account / "token").write_text(kubernetes.account_token)
            yield made
        finally:
            made.stop()


def test_the_product_leads_clients_there_and_back(hook: Hook, kubernetes: Kubernetes) -> None:
    """From a ConfigMap without record on; other keys of it stay; the anchor of the journal is kept."""
    kubernetes.change(other="stays")
    assert hook.send("GET").status_code == 404
    assert hook.routing().redirect(EAST).seen.version == 1
    done = hook.routing().redirect(WEST, anchor={"sequence": 7})
    assert done.changed and done.seen == ClientRoute("west", "w1:9092,w2:9092", 2)
    assert kubernetes.object["data"]["bootstrap.servers"] == "w1:9092,w2:9092"
    assert kubernetes.object["data"]["other"] == "stays"
    assert hook.routing().anchors() == [{"sequence": 7}]
    assert not hook.routing().redirect(WEST).changed
    assert hook.routing().redirect(EAST).seen.version == 3
    assert set(kubernetes.asked) == {"get", "patch"}


def test_clients_take_the_key_that_the_program_writes(hook: Hook, kubernetes: Kubernetes) -> None:
    """The manifest's client names the ConfigMap and a key of it that exists after a redirect."""
    hook.routing().redirect(EAST)
    client = manifest("Deployment", "example-client")["spec"]["template"]["spec"]["containers"][0]
    taken = client["env"][0]["valueFrom"]["configMapKeyRef"]
    assert taken["name"] == kubernetes.object["metadata"]["name"]
    assert kubernetes.object["data"][taken["key"]] == EAST.bootstrap_servers


def test_a_change_of_something_else_in_between_stops_nothing(hook: Hook, kubernetes: Kubernetes) -> None:
    """Kubernetes refuses the patch; the program reads again, and the record is still the former."""
    hook.routing().redirect(EAST)
    changes = iter([{"label": "new"}])
    kubernetes.before_patch = lambda: [kubernetes.change(**one) for one in [next(changes, None)] if one]
    assert hook.routing().redirect(WEST).changed
    assert kubernetes.record["cluster"] == "west" and kubernetes.object["data"]["label"] == "new"


def test_another_writer_in_between_is_not_overwritten(hook: Hook, kubernetes: Kubernetes) -> None:
    """The record of the other one stays; the product says that its write was refused."""
    hook.routing().redirect(EAST)
    other = {"cluster": "north", "bootstrap_servers": "n:9092", "version": 2}
    kubernetes.before_patch = lambda: (
        kubernetes.record["version"] == 1 and kubernetes.change(**{"route.json": json.dumps(other)})
    )
    with pytest.raises(HookUnavailable, match="has version 2; 2 does not follow"):
        hook.routing().redirect(WEST)
    assert kubernetes.record == other


def test_of_many_writers_of_one_version_one_is_taken(hook: Hook, kubernetes: Kubernetes) -> None:
    """Whatever their order, and though the program has a thread for each."""
    hook.routing().redirect(EAST)
    statuses: list[int] = []
    meeting = threading.Barrier(4)

    def write(number: int) -> None:
        meeting.wait(20)
        document = {"cluster": f"c{number}", "bootstrap_servers": "x:9092", "version": 2}
        statuses.append(hook.send("PUT", json=document).status_code)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 409, 409, 409] and kubernetes.record["version"] == 2


def test_whoever_lacks_the_token_is_refused(hook: Hook, kubernetes: Kubernetes) -> None:
    """Before Kubernetes is asked anything."""
    with pytest.raises(HookUnavailable, match="401"):
        hook.routing("another-token").redirect(WEST)
    assert hook.send("PUT", token="", json={}).status_code == 401 and kubernetes.asked == []


@pytest.mark.parametrize(
    ("path", "document", "status"),
    [
        ("/route", {"cluster": "west", "bootstrap_servers": "w:9092"}, 400),
        ("/route", {"cluster": "west", "bootstrap_servers": "w:9092", "version": True}, 400),
        ("/route", ["west"], 400),
        ("/other", {"cluster": "west", "bootstrap_servers": "w:9092", "version": 1}, 404),
    ],
)
def test_what_is_no_record_is_refused(
    hook: Hook, kubernetes: Kubernetes, path: str, document: Any, status: int
) -> None:
    """Nothing is written."""
    assert hook.send("PUT", path, json=document).status_code == status
    assert hook.send("PUT", data=b"{").status_code == 400
    assert "patch" not in kubernetes.asked


def test_what_kubernetes_says_is_passed_on(hook: Hook, kubernetes: Kubernetes) -> None:
    """A token that was replaced is read again; one that is refused, and a ConfigMap that was deleted, are named."""
    kubernetes.account_token = "the-next-one"
    with pytest.raises(HookUnavailable, match="502.*401.*Unauthorized"):
        hook.routing().current()
    (hook.account / "token").write_text(kubernetes.account_token)
    assert hook.routing().redirect(EAST).changed
    kubernetes.object = None
    with pytest.raises(HookUnavailable, match="502.*404.*not found"):
        hook.routing().redirect(WEST)


def test_the_manifest_is_of_one_piece() -> None:
    """Account, role, secrets, program and ports belong together; the program is the file of this folder."""
    pod = manifest("Deployment", "route-hook")["spec"]["template"]
    container = pod["spec"]["containers"][0]
    binding = manifest("RoleBinding", "route-hook")
    assert pod["spec"]["serviceAccountName"] == binding["subjects"][0]["name"]
    assert manifest("ServiceAccount", "route-hook") and binding["roleRef"]["name"] == "route-hook"
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    mounts = {one["mountPath"]: volumes[one["name"]] for one in container["volumeMounts"]}
    (generated,) = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())["configMapGenerator"]
    assert mounts["/program"]["configMap"]["name"] == generated["name"]
    assert container["command"][1] == f"/program/{generated['files'][0]}" and (EXAMPLE / generated["files"][0]).exists()
    service = manifest("Service", "route-hook")["spec"]
    assert service["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
