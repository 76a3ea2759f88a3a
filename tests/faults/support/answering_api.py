"""Three answers of Airflow's API that steps request, from a file that the driver writes."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

from tests.support.json_server import JsonHandler


class Answers(JsonHandler, BaseHTTPRequestHandler):
    """GET of a run and of a gate; POST of a login."""

    known = Path()

    def do_POST(self) -> None:
        """Answer every login with a token."""
        self.content()
        self.answer(201, {"access_token": "t"})

    def do_GET(self) -> None:
        """Answer with a run, or with a gate of this run; 404 for a gate that was not asked."""
        parts = [unquote(part) for part in self.path.strip("/").split("/")]
        told = json.loads(self.known.read_text())
        run = told.get(parts[5] if len(parts) > 5 else "", {})
        if len(parts) == 6:
            started = {"triggered_by": "rest_api", "triggering_user_name": run.get("starter")}
            self.answer(200, {"state": "running", **started})
        elif parts[7] in run.get("gates", {}):
            self.answer(200, run["gates"][parts[7]])
        else:
            self.answer(404, {"detail": "not found"})


if __name__ == "__main__":
    Answers.known = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    print(server.server_port, flush=True)
    server.serve_forever()
