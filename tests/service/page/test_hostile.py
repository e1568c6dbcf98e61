"""
Attempts to run a script through every stored field that the page shows.

There are fifty attempts, and all must fail.
"""

from __future__ import annotations

import pytest

from tickwheel.cli.output import printable

CALL = "window.hit=1"
PAYLOADS = [
    f"<script>{CALL}</script>",
    f"<SCRIPT>{CALL}</SCRIPT>",
    f"</title><script>{CALL}</script>",
    f"</textarea><script>{CALL}</script>",
    f"--><script>{CALL}</script>",
    f"]]><script>{CALL}</script>",
    f"</script><script>{CALL}</script>",
    f"<script/x>{CALL}</script>",
    f"<script\t>{CALL}</script >",
    f"<scr<script>ipt>{CALL}</scr</script>ipt>",
    "<script src=data:text/javascript,window.hit=1></script>",
    "<script src=//127.0.0.1:1/x.js></script>",
    "<script type=module>import('data:text/javascript,window.hit=1')</script>",
    f"<img src=x onerror={CALL}>",
    f"<img src=x onerror='{CALL}'>",
    f'"><img src=x onerror="{CALL}">',
    f"'><img src=x onerror='{CALL}'>",
    f"<img/src=x/onerror={CALL}>",
    f"<image href=x onerror={CALL}>",
    f"<svg onload={CALL}>",
    f"<svg/onload={CALL}//",
    f"<svg><script>{CALL}</script></svg>",
    f"<svg><animate onbegin={CALL} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{CALL}'><text>x</text></a></svg>",
    f"<svg><use href='data:image/svg+xml,<svg onload={CALL}>'/></svg>",
    f"<math><mtext><mglyph><style><img src=x onerror={CALL}>",
    f"<body onload={CALL}>",
    f"<iframe srcdoc='<script>parent.{CALL}</script>'></iframe>",
    f"<iframe src='javascript:parent.{CALL}'></iframe>",
    f"<object data='javascript:{CALL}'></object>",
    f"<embed src='javascript:{CALL}'>",
    f"<a href='javascript:{CALL}' autofocus>x</a>",
    f"<a href='java&#10;script:{CALL}'>x</a>",
    f"<form action='javascript:{CALL}'><button autofocus>x</form>",
    f"<input autofocus onfocus={CALL}>",
    f"<select autofocus onfocus={CALL}>",
    f"<textarea autofocus onfocus={CALL}>",
    f"<details open ontoggle={CALL}>",
    f"<video src=x onerror={CALL}>",
    f"<audio src=x onerror={CALL}>",
    f"<video><source onerror={CALL}></video>",
    f"<marquee onstart={CALL}>",
    f"<meta http-equiv=refresh content='0;javascript:{CALL}'>",
    f"<base href='javascript:{CALL}//'>",
    f"<link rel=stylesheet href='data:text/css,*{{x:expression({CALL})}}'>",
    f"<style>@import 'javascript:{CALL}';</style>",
    f"<noscript><p title='</noscript><img src=x onerror={CALL}>'>",
    "{{constructor.constructor('window.hit=1')()}}",
    "${window.hit=1}",
    f"\u2028{CALL}\u2029//\x1b]0;{CALL}\x07",
]


@pytest.fixture(scope="module")
def hostile(server):
    """
    Return a server whose jobs have scripts in their keys, payloads, handler names and errors.
    """
    for text in PAYLOADS:
        far = server.job(
            "PUT", f"far {text}", {"delay": 3600, "target": "log", "handler": text, "payload": {text: text}}
        )
        assert far.status == 201, far.json
        dead = {"delay": 0, "handler": "repeats", "payload": text, "retry": {"attempts": 1}}
        with server.live() as live:
            assert server.job("PUT", f"dead {text}", dead).status == 201
            live.firing(f"dead {text}", "died")
    return server


def test_there_are_fifty():
    assert len(set(PAYLOADS)) == 50


OPEN = """
const row = document.querySelectorAll("#jobs .row")[arguments[0]];
row.click();
return row.querySelector(".key").textContent;
"""


@pytest.mark.parametrize("state", ["pending", "dead"])
def test_no_script_runs(hostile, page, state):
    """
    The scripts are shown as text in the lists and in each opened job, and none of them runs.
    """
    page.open(hostile)
    page.find("#search select").send_keys(state)
    prefix = "far " if state == "pending" else "dead "
    page.find("#search input").send_keys(prefix)
    keys = {printable(prefix + text) for text in PAYLOADS}
    page.wait_for(lambda: set(page.texts("#jobs .key")) == keys)
    if state == "dead":
        assert {f"RuntimeError: {text}" for text in PAYLOADS} == set(page.texts("#jobs .at"))
    for n in range(len(PAYLOADS)):
        key = page.run(OPEN, n)
        page.wait_for(lambda key=key: page.texts("#detail-title") == [key] or page.texts(".toast"))
        assert page.texts(".toast") == []
        page.run("document.getElementById('detail').close()")
    assert page.run("return window.hit ?? null") is None
    strange = (
        "script:not([src='static/main.js']), iframe, object, embed, base, style, img:not([src='static/wheel.svg'])"
    )
    assert page.run("return document.querySelectorAll(arguments[0]).length", strange) == 0


@pytest.mark.parametrize(
    ("view", "shown", "prefix"), [("dead", "#letters .key", "dead "), ("schedules", "#schedules .key", "back ")]
)
def test_no_script_runs_in_the_other_views(hostile, page, view, shown, prefix):
    """
    The lists of dead letters and of schedules show the scripts as text, and none of them runs.
    """
    if view == "schedules":
        for text in PAYLOADS:
            body = {"every": 3600, "target": "log", "handler": text, "payload": text}
            assert hostile.job("PUT", f"back {text}", body).status == 201
    page.open(hostile)
    page.click(f"#views [href='#{view}']")
    keys = {printable(prefix + text) for text in PAYLOADS}
    page.wait_for(lambda: set(page.texts(shown)) == keys)
    assert page.run("return window.hit ?? null") is None
    assert page.run("return document.querySelectorAll('main script, main iframe, main object, main img').length") == 0
