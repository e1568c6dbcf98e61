"""
The page in a real browser: Debian's Chromium, driven by Debian's chromedriver, against a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")

from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE_S = 60

# Holds the next answer whose address contains this text, once the answer has arrived.
HOLD = """
const [text] = arguments, ask = window.fetch;
window.release = null;
window.fetch = async (path, options) => {
  if (!String(path).includes(text)) return ask(path, options);
  window.fetch = ask;
  const answer = await ask(path, options), body = await answer.text();
  return { ok: answer.ok, text: () => new Promise((go) => (window.release = () => go(body))) };
};
"""


class Page:
    """
    The page in a browser, as a user sees it.
    """

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def open(self, server: Any) -> None:
        """
        Open the page of *server*, and wait until its stream is live.
        """
        self.browser.get(f"http://{server.host}:{server.port}/")
        self.wait_for(lambda: self.find("#link").text == "live")

    def wait_for(self, is_right: Callable[[], Any]) -> Any:
        """
        Call *is_right* repeatedly until it returns a true value, and return this value.
        """
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException  # noqa: PLC0415 only where it is installed

        passing = (NoSuchElementException, StaleElementReferenceException)
        return WebDriverWait(self.browser, PATIENCE_S, 0.05, passing).until(lambda _: is_right())

    def find(self, selector: str) -> WebElement:
        """
        Return the first element that matches a CSS *selector*.
        """
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """
        Return the texts of all elements that match a CSS *selector*, read at one moment.
        """
        script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
        return self.browser.execute_script(script, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        """
        Run *script* in the page, and return its result.
        """
        return self.browser.execute_script(script, *arguments)

    def fill(self, selector: str, value: str) -> None:
        """
        Set the field that matches *selector* to *value*, like a user who types or chooses a value.
        """
        script = """
        const field = document.querySelector(arguments[0]);
        field.value = arguments[1];
        field.dispatchEvent(new Event("input", { bubbles: true }));
        """
        self.run(script, selector, value)

    def click(self, selector: str, text: str | None = None) -> None:
        """
        Click the element that matches *selector*, as soon as it exists.

        If *text* is given, the element must have exactly this text.
        """

        def click() -> bool:
            for element in self.browser.find_elements(By.CSS_SELECTOR, selector):
                if text is None or element.text == text:
                    element.click()
                    return True
            return False

        self.wait_for(click)

    def hold(self, path: str) -> None:
        """
        Hold back the next answer whose address contains *path*, until `let_go` is called.
        """
        self.run(HOLD, path)

    def wait_until_held(self) -> None:
        """
        Wait until the answer that `hold` keeps back has arrived.
        """
        self.wait_for(lambda: self.run("return window.release !== null"))

    def let_go(self) -> None:
        """
        Release the answer that `hold` keeps back, and return after the page has handled it.
        """
        self.run("window.release(); return new Promise((end) => setTimeout(end))")

    def open_job(self, key: str) -> None:
        """
        Search for *key*, and open it from the list.
        """
        search = self.find("#search input")
        search.clear()
        search.send_keys(key)
        self.click("#jobs .key", key)
        self.wait_for(lambda: self.find("#detail-title").text == key)


@pytest.fixture
def page(browser) -> Iterator[Page]:
    """
    Return a page.

    The test fails if the browser's console shows a message.
    """
    browser.get("about:blank")
    browser.get_log("browser")
    yield Page(browser)
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    browser.get("about:blank")
    # A browser reports every answer with an error status as a failed resource; the tests expect some of these.
    assert [message for message in complaints if "Failed to load resource" not in message] == []
