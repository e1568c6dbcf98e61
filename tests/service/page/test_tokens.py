"""
The page with an expired token, and with a token that is valid only for keys with one prefix.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from selenium.webdriver.common.keys import Keys

from tickwheel.service.tokens import Access, Token, digest_of

ALL, TEAM, READER, OLD = ("good" * 10, "team" * 10, "read" * 10, "oldt" * 10)
OLD_UNTIL = time.time() - 60
CUT_OFF = """
const ask = window.fetch;
window.fetch = (path, options) => {
  if (!path.startsWith("./v1/live")) return ask(path, options);
  window.fetch = ask;
  return Promise.reject(new TypeError("cut off"));
};
"""
SOON, FAR = ({"delay": delay, "target": "log"} for delay in (0.5, 3600))


@pytest.fixture
def service(start, tmp_path):
    """
    Return a service with tokens, and a function that sets a job with the token for all keys.
    """
    tokens = (
        Token(Access.WRITE, digest_of(ALL), until=time.time() + 3600),
        Token(Access.WRITE, digest_of(TEAM), prefix="team/"),
        Token(Access.READ, digest_of(READER), prefix="team/"),
        Token(Access.WRITE, digest_of(OLD), until=OLD_UNTIL),
    )
    (tmp_path / "tokens").write_text("\n".join(token.line() for token in tokens))
    server = start("--tokens", "tokens")
    bearer = {"authorization": f"Bearer {ALL}"}
    return server, lambda key, body: server.job("PUT", key, body, bearer)


@pytest.fixture
def sign_in(service, page):
    """
    Return a function that opens an address of the page with a token.

    At the end, the fixture makes the browser's tab forget the token.
    """
    server = service[0]

    def open_page(token, place=""):
        page.browser.get(f"http://{server.host}:{server.port}/{place}")
        page.wait_for(lambda: page.find("#sign-in").is_displayed())
        page.find("#sign-in input").send_keys(token, Keys.ENTER)

    yield open_page
    page.run("sessionStorage.clear()")


def refused(server, reason):
    """
    Return the number of requests that were refused for *reason*.
    """
    text = server.ask("GET", "/metrics", headers={"authorization": f"Bearer {ALL}"}).body.decode()
    return float(text.partition(f'tickwheel_rejections_total{{reason="{reason}"}} ')[2].split()[0])


def test_expired(page, sign_in):
    """
    An expired token is refused, and the page shows the reason.

    A valid token then opens the page.
    """
    sign_in(OLD)
    until = datetime.fromtimestamp(OLD_UNTIL, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    said = f"The service refuses the token of this tab: the token expired at {until}"
    page.wait_for(lambda: page.find("#refused").text.startswith(said))
    page.find("#sign-in input").send_keys(ALL, Keys.ENTER)
    page.wait_for(lambda: page.find("#link").text == "live")
    assert not page.find("#reach").is_displayed()


@pytest.mark.usefixtures("sign_in")
def test_a_restricted_token_in_a_view_of_all_jobs(service, page):
    """
    In a view of all jobs, the page does not send a token that is valid only for one prefix.
    """
    server = service[0]
    page.browser.get(f"http://{server.host}:{server.port}/#fleet")
    page.wait_for(lambda: page.find("#sign-in").is_displayed())
    page.run(f"sessionStorage.setItem('tickwheel.token', '{TEAM}')")
    before = refused(server, "missing")
    page.wait_for(lambda: refused(server, "missing") >= before + 2)
    assert refused(server, "forbidden") == 0


def test_a_restriction_that_is_reported_late(service, page, sign_in):
    """
    A view of all jobs was opened with a token that turns out to be valid only for one prefix.

    The page then shows the overview.
    """
    _, put = service
    assert put("team/tea", FAR).status == 201
    script = page.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": CUT_OFF})
    try:
        sign_in(TEAM, "#fleet")
        page.wait_for(lambda: page.texts("#jobs .key") == ["team/tea"])
    finally:
        page.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    assert page.find("[data-view=overview]").is_displayed()
    assert not page.find("[data-view=fleet]").is_displayed()


def test_a_token_for_one_prefix(service, page, sign_in):
    """
    With a token for one prefix, the page shows and changes only jobs with this prefix.

    It says that other jobs are not shown, and sends no request that the service would refuse.
    """
    server, put = service
    for key in ("team/tea", "team/toast", "other", "teal"):
        assert put(key, FAR).status == 201
    assert put("team/often", {"every": 3600, "target": "log"}).status == 201
    assert put("other often", {"every": 3600, "target": "log"}).status == 201
    sign_in(TEAM, "#fleet")  # "#fleet" is a view of all jobs
    page.wait_for(lambda: page.texts("#jobs .key") == ["team/often", "team/tea", "team/toast"])
    assert page.find("#reach").text == (
        "The token of this tab is for keys that begin with “team/”. What is about all jobs is not shown."
    )
    assert page.find("#link").text == "live"
    links = page.browser.find_elements("css selector", "#views a")
    assert [link.text for link in links if link.is_displayed()] == ["Overview", "Dead letters", "Schedules"]
    assert not any(
        page.find(part).is_displayed() for part in ("#river", "#strips", "#figures", "#rates", "#lateness", "#bulk")
    )

    for typed, found in (("te", 3), ("team/t", 2), ("team/x", 0), ("oth", 0), ("", 3)):
        page.fill("#search input", typed)
        page.wait_for(lambda found=found: len(page.texts("#jobs .key")) == found)
    page.fill("#search input", "oth")
    page.wait_for(lambda: page.find("#jobs-empty").text == "The token of this tab is for keys that begin with “team/”.")
    page.fill("#search input", "")

    page.click("#jobs .key", "team/tea")
    page.wait_for(lambda: page.find("#detail-title").text == "team/tea")
    page.click("#detail .danger", "Cancel job")
    page.click("#detail .danger", "Really cancel?")
    page.wait_for(lambda: page.texts("#jobs .key") == ["team/often", "team/toast"])

    for key in ("other soon", "team/soon"):
        assert put(key, SOON).status == 201
    page.wait_for(lambda: page.texts("#firings .key") == ["team/soon"])

    page.click("#views a", "Schedules")
    page.wait_for(lambda: page.texts("#schedules .key") == ["team/often"])
    page.click("#views a", "Dead letters")
    page.wait_for(lambda: page.find("#letters-empty").is_displayed())
    page.find("body").send_keys(Keys.CONTROL, "k")
    page.wait_for(lambda: page.find("#palette").is_displayed())
    assert not {"Fleet", "Wheel", "Pause for maintenance"} & set(page.texts("#palette-list li span:first-child"))
    page.find("#palette-input").send_keys("t")
    page.wait_for(lambda: "team/toast" in page.texts("#palette-list li span:first-child"))
    page.find("#palette-input").send_keys(Keys.ESCAPE)
    assert refused(server, "forbidden") == 0

    page.run("location.hash = '#job/other'")
    page.wait_for(lambda: any("'other' is out of reach" in text for text in page.texts(".toast span")))


def test_a_read_token_for_one_prefix(service, page, sign_in):
    """
    With a read token for one prefix, the page shows no controls that write.
    """
    server, put = service
    assert put("team/tea", FAR).status == 201
    sign_in(READER, "#job/team%2Ftea")
    page.wait_for(lambda: page.find("#detail-title").text == "team/tea")
    assert page.find("#access").is_displayed()
    assert not any(each.is_displayed() for each in page.browser.find_elements("css selector", ".writes"))
    assert refused(server, "forbidden") == 0
