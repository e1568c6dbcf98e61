"""
Third-party tools generate clients from the OpenAPI document, and the tests use these clients with the service.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

USE_PYTHON = """
import sys
from generated import AuthenticatedClient
from generated.api.batches import batches_apply
from generated.api.figures import figures_get_stats
from generated.api.jobs import jobs_cancel, jobs_get, jobs_list, jobs_move, jobs_set
from generated.models import AnswerDocument, BatchBody, CancelItem, CancelItemDo, MoveBody, Problem
from generated.models import SetBody, SetItem, SetItemDo

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
answer = jobs_set.sync("té a/b", client=client, body=SetBody(delay=240, target="log", payload={"cups": 2}))
assert isinstance(answer, AnswerDocument) and answer.outcome == "created", answer
assert answer.job.key == "té a/b" and answer.job.due_at.tzinfo is not None
again = jobs_set.sync("té a/b", client=client, body=SetBody(delay=1, target="log"), if_none_match="*")
assert isinstance(again, Problem) and again.status == 412, again
moved = jobs_move.sync("té a/b", client=client, body=MoveBody(delay="10m"), if_match=f'"{answer.job.generation}"')
assert moved.outcome == "moved", moved
assert [job.key for job in jobs_list.sync(client=client, prefix="té", limit=5).jobs] == ["té a/b"]
missing = jobs_get.sync("nobody", client=client)
assert isinstance(missing, Problem) and missing.type_ == "/problems/job_not_found", missing
items = [SetItem(do=SetItemDo.SET, key="b", at=4e9, target="log"), CancelItem(do=CancelItemDo.CANCEL, key="none")]
batch = batches_apply.sync(client=client, body=BatchBody(items=items))
assert [result.status for result in batch.results] == [201, 404], batch
stats = figures_get_stats.sync(client=client)
assert stats.pending == 2 and stats.lateness.histogram[-1][0] is None, stats
assert jobs_cancel.sync("té a/b", client=client).outcome == "cancelled"
series = jobs_set.sync("series", client=client, body=SetBody(every=60, target="log", max_runs=9))
assert (series.job.recurrence.every_ms, series.job.recurrence.max_runs) == (60_000, 9), series
"""

USE_TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.d.ts";

const [, , baseUrl, token] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } });
const where = { params: { path: { key: "té a/b" } } };
const set = await client.PUT("/v1/jobs/{key}", { ...where, body: { delay: 240, target: "log", payload: { cups: 2 } } });
if (!set.data?.job) throw new Error(set.error?.detail);
const moved = await client.PATCH("/v1/jobs/{key}", { ...where, body: { delay: "10m" } });
const page = await client.GET("/v1/jobs", { params: { query: { prefix: "té", limit: 5 } } });
const missing = await client.GET("/v1/jobs/{key}", { params: { path: { key: "nobody" } } });
const stats = await client.GET("/v1/stats");
const last = stats.data?.lateness.histogram.at(-1)?.[0];
const keys = page.data?.jobs.map((job) => job.key);
console.log(JSON.stringify([set.data.outcome, moved.data?.outcome, keys, missing.error?.type, last]));
await client.DELETE("/v1/jobs/{key}", where);
"""
TOKEN = "w" * 40
MODULES = Path(sys.prefix, "clients", "node_modules")
"""Folder of the Node.js modules, which `make` installs if npm is available."""


@pytest.fixture
def described(start, tmp_path):
    """
    Return the address of a service with a token, and the path of its OpenAPI document.
    """
    server = start(environment={"TICKWHEEL_WRITE_TOKEN": TOKEN})
    document = tmp_path / "openapi.json"
    document.write_bytes(server.ask("GET", "/openapi.json").body)
    return f"http://{server.host}:{server.port}", document


@pytest.mark.skipif(find_spec("openapi_python_client") is None, reason="pip install openapi-python-client")
def test_python(described, tmp_path):
    """
    The code that openapi-python-client generates has every operation.

    The generated client can set, move, list and cancel jobs, and can read problem documents.
    """
    address, document = described
    generated = run(
        *(sys.executable, "-m", "openapi_python_client", "generate", "--path", document, "--meta", "none"),
        *("--output-path", tmp_path / "generated"),
        cwd=tmp_path,
    )
    assert "will not be generated" not in generated, generated
    run(sys.executable, "-c", USE_PYTHON, address, TOKEN, cwd=tmp_path)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node, which runs what openapi-typescript makes")
@pytest.mark.skipif(not MODULES.is_dir(), reason="there is no npm, by which make installs openapi-typescript")
def test_typescript(described, tmp_path):
    """
    The types that openapi-typescript generates compile in strict mode.

    A client with these types can set, move, list and cancel jobs, and can read problem documents.
    """
    address, document = described
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "use.ts").write_text(USE_TYPESCRIPT)
    tool = MODULES / "openapi-typescript" / "bin" / "cli.js"
    run("node", tool, document, "--output", "schema.d.ts", cwd=tmp_path)
    strict = ("--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "--types", "node")
    run("node", MODULES / "typescript" / "bin" / "tsc", *strict, "use.ts", cwd=tmp_path)
    said = run("node", "use.js", address, TOKEN, cwd=tmp_path)
    assert said.strip() == '["created","moved",["té a/b"],"/problems/job_not_found",null]'


def run(*command: object, cwd: Path) -> str:
    """
    Run *command*, check that it succeeds, and return its output.
    """
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    answer = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr
