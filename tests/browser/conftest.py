"""The system's Chromium for the tests of the report pages, and a page in it that may complain about nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed to open the page with")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file; afterwards nothing may have been said on the console, and nothing asked for but the file."""
    pages: list[Page] = []
    troubles: list[str] = []
    asked: list[str] = []
    addresses: list[str] = []

    def refuse(dialog: Dialog) -> None:
        troubles.append(dialog.message)
        dialog.dismiss()

    def go(path: Path, *, scheme: Literal["light", "dark"] = "light", width: int = 1200) -> Page:
        page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", refuse)
        page.on("request", lambda wanted: asked.append(wanted.url))
        addresses.append(path.as_uri())
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield go
    for page in pages:
        page.close()
    assert troubles == []
    # The browser makes data: and blob: addresses by itself, without a network.
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == addresses


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value
