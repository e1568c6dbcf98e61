"""
The page inside another application, under a path prefix.
"""

from __future__ import annotations

import socket
import threading

import pytest

from tickwheel.integrations.fastapi import Jobs

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'tickwheel[service]'")

applications = pytest.importorskip("starlette.applications", reason="as above")
routing = pytest.importorskip("starlette.routing", reason="as above")
service = pytest.importorskip("tickwheel.service", reason="as above", exc_type=ImportError)


def test_a_page_under_a_prefix(page):
    """
    Under a path prefix, the page is live, shows jobs and changes them, even after its stream was interrupted.
    """
    jobs = Jobs("memory://")
    app = applications.Starlette(
        lifespan=jobs.lifespan, routes=[routing.Mount("/shop/jobs", service.tickwheel_app(jobs))]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        page.browser.get(f"http://admin:secret@{host}:{port}/shop/jobs/")
        page.wait_for(lambda: page.find("#link").text == "live")
        page.browser.get(f"http://{host}:{port}/shop/jobs")
        page.wait_for(lambda: page.find("#link").text == "live")
        assert page.browser.current_url.partition("#")[0] == f"http://{host}:{port}/shop/jobs/"
        script = """
            const [path, done] = arguments;
            fetch(path, { method: "PUT", headers: { "content-type": "application/json" },
                          body: '{"delay":3600,"target":"log"}' }).then((answer) => done(answer.status));
        """
        assert page.browser.execute_async_script(script, "v1/jobs/tea") == 201
        page.wait_for(lambda: "tea" in page.find("#pending").text)
        page.run(
            """
            const link = document.querySelector("#link");
            window.away = 0;
            new MutationObserver(() => (window.away += link.textContent !== "live")).observe(link, { childList: true });
            """
        )
        streams = "performance.getEntriesByType('resource').filter((each) => each.name.includes('/v1/live')).length"
        page.wait_for(lambda: page.run(f"return {streams}") >= 2)
        assert page.run("return window.away") == 0
        addresses = page.run("return performance.getEntriesByType('resource').map((each) => each.name)")
        assert {address.split("/")[3] for address in addresses} == {"shop"}
    finally:
        server.should_exit = True
        thread.join(60)
    assert not thread.is_alive()
