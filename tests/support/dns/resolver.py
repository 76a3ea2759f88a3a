"""A real caching resolver, which asks the servers of the test's zone as clients' resolvers do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import dns.message
import dns.query

from tests.support.dns.knot import NAME, ZONE, KnotServer, KnotSite, eventually
from tests.support.postgresql import die_with_parent

SETTINGS = """server:
  interface: {address}@{port}
  port: {port}
  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no
  do-daemonize: no
  use-syslog: no
  chroot: ""
  username: ""
  directory: "{folder}"
  pidfile: "{folder}/pid"
  module-config: "iterator"
  num-threads: 1
  msg-cache-size: 1m
  rrset-cache-size: 1m
  do-ip6: no
stub-zone:
  name: "{zone}"
  stub-prime: no
{stubs}
"""


class Resolver:
    """One resolver, which ends with this process.

    Args:
        only: the one server that it asks; None: any of the site's.
    """

    def __init__(self, folder: Path, site: KnotSite, address: str, port: int, only: KnotServer | None = None) -> None:
        self.address, self.port = address, port
        asked = [only] if only else list(site.servers.values())
        stubs = "\n".join(f"  stub-addr: {server.address}@{server.port}" for server in asked)
        folder.mkdir(parents=True)
        (folder / "unbound.conf").write_text(
            SETTINGS.format(address=address, port=port, folder=folder, zone=ZONE, stubs=stubs)
        )
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/usr/sbin/unbound", "-d", "-c", str(folder / "unbound.conf")],
                stdout=log, stderr=log, preexec_fn=die_with_parent,
            )  # fmt: skip
        eventually(lambda: self.ask(NAME), f"the resolver answers: {(folder / 'log').read_text()[-500:]}")

    def ask(self, name: str, kind: str = "A") -> list[str]:
        """Return the addresses to which a name leads, as the resolver answers over UDP."""
        answer = dns.query.udp(dns.message.make_query(name, kind), self.address, timeout=3.0, port=self.port)
        return sorted(one.to_text() for rrset in answer.answer if rrset.rdtype.name == kind for one in rrset)

    def stop(self) -> None:
        """End the resolver."""
        self._process.kill()
        self._process.wait()
