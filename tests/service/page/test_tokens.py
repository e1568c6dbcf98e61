"""
The page with tokens that it cannot be shown with.
"""

from __future__ import annotations

import time

from selenium.webdriver.common.keys import Keys

from tickwheel.service.tokens import Access, Token, digest_of


def test_bounded_and_expired(start, page, tmp_path):
    """
    A token for some keys, and one that has expired, are refused with the reason, and a good one lets the page in.
    """
    tokens = (
        Token(Access.WRITE, digest_of("team" * 10), prefix="team/"),
        Token(Access.WRITE, digest_of("oldt" * 10), until=time.time() - 60),
        Token(Access.WRITE, digest_of("good" * 10), until=time.time() + 3600),
    )
    (tmp_path / "tokens").write_text("\n".join(token.line() for token in tokens))
    server = start("--tokens", "tokens")
    page.browser.get(f"http://{server.host}:{server.port}/")
    for token, reason in (("team", "for some keys alone"), ("oldt", "not valid any more")):
        page.wait_for(lambda: page.find("#sign-in").is_displayed())
        page.find("#sign-in input").send_keys(token * 10, Keys.ENTER)
        page.wait_for(lambda reason=reason: reason in page.find("#refused").text)
    page.find("#sign-in input").send_keys("good" * 10, Keys.ENTER)
    page.wait_for(lambda: page.find("#link").text == "live")
    page.run("sessionStorage.clear()")
