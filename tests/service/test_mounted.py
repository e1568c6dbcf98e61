"""
The page and the API mounted in another application, under a prefix and behind its authentication.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest

from tickwheel.integrations.fastapi import Jobs
from tickwheel.scheduler import AsyncScheduler, Scheduler
from tickwheel.service.pages import STATIC

pytest.importorskip("msgspec", reason="msgspec is not installed: pip install 'tickwheel[service]'")
applications = pytest.importorskip("starlette.applications", reason="Starlette is not installed")
authentication = pytest.importorskip("starlette.middleware.authentication", reason="as above")
exceptions = pytest.importorskip("starlette.exceptions", reason="as above")
routing = pytest.importorskip("starlette.routing", reason="as above")
testclient = pytest.importorskip("starlette.testclient", reason="as above")
auth = pytest.importorskip("starlette.authentication", reason="as above")
service = pytest.importorskip("tickwheel.service", reason="as above", exc_type=ImportError)

KEYS = ("a", "team/a b", "a%2Fb", "x:run", "é/ü", "jobs/jobs")


class StripPrefix:
    """
    A proxy that removes the prefix from the path. It passes the prefix on as `root_path` if *is_known* is true.
    """

    def __init__(self, inner, prefix, *, is_known):
        self._inner, self._prefix, self._is_known = inner, prefix, is_known

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            cut = len(self._prefix)
            scope = {**scope, "path": scope["path"][cut:], "raw_path": scope["raw_path"][cut:]}
            scope |= {"root_path": self._prefix} if self._is_known else {}
        await self._inner(scope, receive, send)


class RootPath:
    """
    A server that adds its `root_path` to the beginning of the path, as uvicorn does.
    """

    def __init__(self, inner, prefix):
        self._inner, self._prefix = inner, prefix

    async def __call__(self, scope, receive, send):
        """
        Pass the request on, with the prefix in its path.
        """
        await self._inner({**scope, "root_path": self._prefix} if scope["type"] == "http" else scope, receive, send)


def outer(app, mount="/jobs"):
    """
    Return an application with *app* under *mount*.
    """
    return applications.Starlette(routes=[routing.Mount(mount, app)])


PLACES = {
    "mounted": ("/jobs/", outer),
    "nested": ("/shop/admin/jobs/", lambda app: outer(outer(outer(app), "/admin"), "/shop")),
    "with a space": ("/my%20jobs/", lambda app: outer(app, "/my jobs")),
    "of a tenant": ("/a%20b/jobs/", lambda app: outer(app, "/{tenant}/jobs")),
    "behind a server's prefix": ("/api/jobs/", lambda app: RootPath(outer(app), "/api")),
    "behind a proxy that strips": ("/api/jobs/", lambda app: StripPrefix(outer(app), "/api", is_known=False)),
    "behind a known proxy that strips": ("/api/jobs/", lambda app: StripPrefix(outer(app), "/api", is_known=True)),
    "stripped to the root": ("/api/", lambda app: StripPrefix(app, "/api", is_known=False)),
    "at the root": ("/", lambda app: app),
}


@pytest.fixture
def serve(async_scheduler):
    """
    Return a function that serves the page of a scheduler at an address.
    """
    clients = []

    def start(place=outer, **options):
        client = testclient.TestClient(
            place(service.tickwheel_app(async_scheduler, **options)), base_url="http://shop.example"
        )
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close()


@pytest.mark.parametrize("place", PLACES)
def test_the_page_and_the_api_have_relative_addresses(serve, place):
    """
    The page finds its files and jobs at any address and under any host name. The keys may contain any characters.
    """
    prefix, make = PLACES[place]
    client = serve(make)
    page = client.get(prefix)
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    files = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
    assert len(files) >= 4
    for file in files:
        assert client.get(urljoin(prefix, file)).status_code == 200
    for key in KEYS:
        address = urljoin(prefix, "v1/jobs/") + key.replace("%", "%25").replace("/", "%2F").replace(":", "%3A")
        assert client.put(address, json={"delay": 60, "target": "log"}).status_code == 201, key
        assert client.get(address).json()["key"] == key
    assert {job["key"] for job in client.get(urljoin(prefix, "v1/jobs")).json()["jobs"]} == set(KEYS)
    assert client.get(urljoin(prefix, "nothing")).status_code == 404


def test_no_file_names_an_absolute_address(serve):
    """
    The page uses only relative addresses for its own service.
    """
    client = serve()
    modules = [path.name for path in STATIC.glob("*.js")]
    for name in modules:
        text = client.get(f"/jobs/static/{name}").text
        assert not re.findall(r"fetch\((?!here\()", text), name
        assert not re.findall(r"""(?:href|src|location)\s*=\s*["'`]/""", text), name
    assert len(modules) > 30


def test_an_address_without_its_slash():
    """
    If the page is requested without the slash at the end of its address, a relative redirect adds the slash.
    """
    for path in ("/jobs", "/my%20jobs"):
        app = RootPath(service.tickwheel_app(AsyncScheduler("memory://")), path.replace("%20", " "))
        answer = testclient.TestClient(app).get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (307, f"{path[1:]}/")


def test_the_applications_own_authentication(serve):
    """
    The application's function `authorize` decides about each request. It may be async, and may raise an exception.

    The user that it returns is the author of changes.
    """

    class Users(auth.AuthenticationBackend):
        async def authenticate(self, conn):
            """
            Take the user's name from a header.
            """
            name = conn.headers.get("x-user")
            return None if name is None else (auth.AuthCredentials(["authenticated"]), auth.SimpleUser(name))

    async def authorize(request):
        if not request.user.is_authenticated:
            raise exceptions.HTTPException(401, "log in")
        return {"ada": "write", "bob": "read"}.get(request.user.display_name)

    def make(app):
        made = outer(app)
        made.add_middleware(authentication.AuthenticationMiddleware, backend=Users())
        return made

    client = serve(make, authorize=authorize)
    job = {"every": 60, "target": "log"}
    statuses = {}
    for user in ("", "ada", "bob", "eve"):
        headers = {"x-user": user} if user else {}
        read = client.get("/jobs/v1/jobs", headers=headers).status_code
        statuses[user] = (read, client.put("/jobs/v1/jobs/a", json=job, headers=headers).status_code)
    assert statuses == {"": (401, 401), "ada": (200, 201), "bob": (200, 403), "eve": (403, 403)}
    assert client.get("/jobs/debug/stacks", headers={"x-user": "bob"}).status_code == 403
    history = client.get("/jobs/v1/jobs/a:history", headers={"x-user": "bob"}).json()["records"]
    assert [each["by"] for each in history] == ["ada"]


def test_an_invalid_answer_of_authorize(serve):
    """
    If `authorize` returns anything but "write", "read" or None, this is treated as an error in the program.
    """
    for answer in (True, 1, "admin", ""):
        with pytest.raises(ValueError, match="return 'write', 'read' or None"):
            serve(authorize=lambda _, answer=answer: answer).get("/jobs/v1/jobs")


def test_other_origins(serve):
    """
    A page of another origin cannot write, whatever Host header a proxy sends.

    The application's own pages can write.
    """
    client = serve()

    def put(**headers):
        return client.put("/jobs/v1/jobs/a", json={"delay": 1, "target": "log"}, headers=headers)

    assert put(origin="http://evil.example").status_code == 403
    assert put(origin="http://evil.example", **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert put(origin="http://shop.example").status_code == 201
    assert put(origin="https://public.example", **{"sec-fetch-site": "same-origin"}).status_code == 200


def test_a_mounted_service_refuses_workers(serve):
    """
    A mounted service refuses pull workers.
    """
    answer = serve().post("/jobs/v1/pull", json={"queue": "a"})
    assert answer.status_code == 404
    assert "tickwheel serve" in answer.json()["detail"]


def test_the_jobs_of_an_integration():
    """
    If the application starts again, the page shows the jobs of its new scheduler.
    """
    jobs = Jobs("memory://")
    app = applications.Starlette(lifespan=jobs.lifespan, routes=[routing.Mount("/jobs", service.tickwheel_app(jobs))])
    for _ in range(2):
        with testclient.TestClient(app) as client:
            assert client.get("/jobs/v1/jobs").json()["jobs"] == []
            assert client.put("/jobs/v1/jobs/a", json={"delay": 60, "target": "log"}).status_code == 201


def test_an_object_without_a_scheduler():
    """
    If the object for which the page is made is not an `AsyncScheduler`, an error is raised.
    """
    for wrong in (Scheduler("memory://"), "memory://", None):
        with pytest.raises(TypeError, match="pass an AsyncScheduler"):
            service.tickwheel_app(wrong)
