"""The report in a real browser: no errors, sorting, narrow screens, no scripts, contrast, paper.

With MOMENTMIX_SCREENSHOTS=folder the pictures that were looked at are written there.
"""

import base64
import os
import shutil
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest

import momentmix as mm

webdriver = pytest.importorskip("selenium.webdriver", reason="pip install momentmix[browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="no chromium and chromedriver on this machine (Debian: chromium, chromium-driver)",
)

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync"
)
NAMES = ["height", "<b>weight</b>", "a rather long name of a feature", "d", "e", "f"]
SCREENSHOTS = os.environ.get("MOMENTMIX_SCREENSHOTS")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    rng = np.random.default_rng(5)
    means = 4 * rng.standard_normal((3, 6))
    truth = mm.DiagonalMixture([0.2, 0.5, 0.3], means, 0.5 + rng.random((3, 6)))
    rows = truth.sample(5000, random_state=0)[0]
    folder = tmp_path_factory.mktemp("report")
    mm.fit(rows, 3, random_state=0).save(folder / "model.json", NAMES, seed=0)
    mm.report(folder / "model.json", folder / "report.html", rows)
    return (folder / "report.html").as_uri()


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


def resize(browser, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def keep(browser, name):
    """Write a screenshot of the whole page where pictures are wanted."""
    if SCREENSHOTS is None:
        return
    size = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    Path(SCREENSHOTS, name).write_bytes(base64.b64decode(shot["data"]))


def column(browser, table, number):
    rows = f"[...document.querySelectorAll('#{table} tbody tr')]"
    return browser.execute_script(f"return {rows}.map(r => r.cells[{number}].innerText)")


def test_opens_without_errors_and_without_network(browser, address):
    resize(browser, 1200, 900)
    browser.get(address)
    assert browser.get_log("browser") == []
    asked = [
        e["message"] for e in browser.get_log("performance") if "requestWillBeSent" in e["message"]
    ]
    assert len(asked) >= 1
    assert not any('"url":"http' in message for message in asked)
    images = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth])"
    )
    assert len(images) == 3
    assert all(complete and width > 300 for complete, width in images)
    assert browser.execute_script("return document.querySelectorAll('b').length") == 0
    assert "<b>weight</b>" in column(browser, "parameter-table", 1)
    keep(browser, "desktop.png")


def test_headings_sort_by_number_and_name(browser, address):
    browser.get(address)
    before = column(browser, "component-table", 1)
    button = browser.execute_script(
        "return document.querySelectorAll('#component-table thead button')[1]"
    )
    button.click()
    up = column(browser, "component-table", 1)
    assert [float(x.split()[0]) for x in up] == sorted(float(x.split()[0]) for x in before)
    button.send_keys("\ue007")  # the Enter key: buttons work without a mouse
    assert column(browser, "component-table", 1) == up[::-1]
    state = "return document.querySelectorAll('#component-table th')[1].getAttribute('aria-sort')"
    assert browser.execute_script(state) == "descending"
    browser.execute_script("document.querySelectorAll('#parameter-table thead button')[1].click()")
    assert column(browser, "parameter-table", 1) == sorted(NAMES * 3)


@pytest.mark.parametrize("width", [320, 375, 768])
def test_a_narrow_page_does_not_scroll_sideways(browser, address, width):
    resize(browser, width, 800)
    browser.get(address)
    wide, seen = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert seen == width
    assert wide <= seen
    squeezed = browser.execute_script(
        "return [...document.querySelectorAll('td.long')].filter(c => c.clientWidth < 60).length"
    )
    assert squeezed == 0
    keep(browser, f"width-{width}.png")


def test_everything_is_there_without_scripts(browser, address):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(address)
    assert browser.find_elements("css selector", "button") == []
    assert len(browser.find_elements("css selector", "#parameter-table tbody tr")) == 18
    assert "Certificate: ✓ Passed" in browser.find_element("css selector", ".verdict").text
    assert browser.get_log("browser") == []


CONTRAST = """
const lum = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = e => { for (; e; e = e.parentElement) {
  const c = getComputedStyle(e).backgroundColor;
  if (c !== "rgba(0, 0, 0, 0)") return c; } return "rgb(255, 255, 255)"; };
return [...document.querySelectorAll("h1,h2,h3,p,li,a,th,td,button,caption,figcaption,span,strong")]
  .map(e => { const a = lum(getComputedStyle(e).color), b = lum(ground(e));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); });
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_every_text(browser, address, scheme):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    resize(browser, 1200, 900)
    browser.get(address)
    ratios = browser.execute_script(CONTRAST)
    assert len(ratios) > 100
    assert min(ratios) >= 4.5
    keep(browser, f"{scheme}.png")


def test_prints_on_a_few_pages_with_every_parameter(browser, address):
    browser.get(address)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    document = base64.b64decode(printed["data"])
    assert document[:5] == b"%PDF-"
    assert 2 <= document.count(b"/Type /Page\n") <= 8
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')]"
        ".filter(b => b.scrollHeight > b.clientHeight + 2).length"
    )
    assert cut == 0
    if SCREENSHOTS is not None:
        Path(SCREENSHOTS, "print.pdf").write_bytes(document)
