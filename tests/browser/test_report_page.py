"""The report in a real browser, on phones, tablets and screens, light and dark."""

import base64
import io
import shutil

import numpy as np
import pandas as pd
import pytest
from campaigns.made_tables import customers
from matplotlib.image import imread

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
WIDTHS, SCHEMES = (390, 820, 1280), ("light", "dark")


# -- reports ----------------------------------------------------------------------------------


def table():
    """Numbers, categories, counts, yes/no, missing cells, joined columns, a name with markup."""
    frame, labels, _ = customers(3000, 0)
    z = np.random.default_rng(1).standard_normal((3000, 2))
    frame["height"] = 170 + 8 * z[:, 0]
    frame["<b>shoe</b>"] = 42 + 1.6 * (0.8 * z[:, 0] + 0.6 * z[:, 1]) + labels
    blocks = [["height", "<b>shoe</b>"]]
    options = {"families": {"visits": "poisson"}, "missing": "model", "blocks": blocks}
    return mm.fit(frame, 3, random_state=0, **options), frame


def most():
    """60 columns and 20 groups: more than there are colors."""
    rng = np.random.default_rng(3)
    means, names = 10 + 4 * rng.standard_normal((20, 60)), [f"sensor_{i}" for i in range(60)]
    law = mm.Mixture.diagonal(
        rng.dirichlet(np.full(20, 6.0)), means, 1 + rng.random((20, 60)), names
    )
    return law, pd.DataFrame(law.sample(3000, 0)[0], columns=names)


def failed():
    """Skewed and correlated columns, a count taken for a number, a constant."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((2000, 3))
    rows = pd.DataFrame({
        "height of the person in centimeters": 170 + 8 * z[:, 0],
        "weight": 70 + 9 * (0.8 * z[:, 0] + 0.6 * z[:, 1]),
        "income": np.exp(10 + z[:, 2]),
        "children": rng.poisson(1.5, 2000),
        "same": 1.0,
    })  # fmt: skip
    return mm.fit(rows, 2, random_state=0), rows


REPORTS = {f.__name__: f for f in (table, most, failed)}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name, make in REPORTS.items():
        model, rows = make()
        mm.report(model, folder / f"{name}.html", rows, date="2025-01-31", data_name=f"{name}.csv")
    return {name: (folder / f"{name}.html").as_uri() for name in REPORTS}


# -- browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def browser(started):
    look(started, 1280, "light")
    yield started
    started.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    started.get_log("browser")


def look(browser, width, scheme, media=""):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})
    size = {
        "width": width,
        "height": 844 if width < 600 else 900,
        "deviceScaleFactor": 1,
        "mobile": width < 600,
    }
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def captured(browser, clip):
    options = {"captureBeyondViewport": True, "clip": {**clip, "scale": 1}}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", options)
    return base64.b64decode(shot["data"])


def unfold(browser):
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


CONTRAST = """
const lum = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const ground = e => { if (!e) return "rgb(255, 255, 255)";
  const c = getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number);
  if (c.length < 4) return `rgb(${c})`;
  const below = ground(e.parentElement).match(/[\\d.]+/g).map(Number);
  return `rgb(${below.map((b, k) => c[3] * c[k] + (1 - c[3]) * b)})`; };
const tags = "h1,h2,h3,p,li,a,th,td,button,caption,figcaption,span,strong,summary,dt,dd,time,code";
return [...document.querySelectorAll(tags)].filter(e => e.innerText)
  .map(e => { const a = lum(getComputedStyle(e).color), b = lum(ground(e));
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName + " " + e.className]; });
"""
WIDE = """
return [...document.querySelectorAll("*")].filter(e => e.scrollWidth > e.clientWidth + 1
  && ["auto", "scroll"].includes(getComputedStyle(e).overflowX))
  .map(e => e.className + " " + ((e.querySelector("table") || {}).id || ""));
"""
CUT = """
const end = document.documentElement.clientWidth + 1;
return [...document.querySelectorAll("main *, header *")]
  .filter(e => e.innerText || e.tagName === "IMG")
  .filter(e => e.getBoundingClientRect().right > end && !e.closest(".scroll, .first code"))
  .map(e => e.tagName + " " + e.className);
"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_whole_at_every_width_in_both_schemes(browser, pages, name, scheme, width):
    look(browser, width, scheme)
    browser.get(pages[name])
    unfold(browser)
    assert browser.get_log("browser") == []
    wide, seen = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert seen == width
    assert wide <= seen
    assert all("scroll" in name or not name.strip() for name in browser.execute_script(WIDE))
    assert browser.execute_script(CUT) == []
    images = browser.execute_script(
        "return [...document.images].map(i => [i.complete, i.naturalWidth, i.clientWidth])"
    )
    assert len(images) >= 3
    assert all(complete and own > 100 and shown > 150 for complete, own, shown in images)
    ratios = browser.execute_script(CONTRAST)
    assert len(ratios) > 60
    assert min(ratios)[0] >= 4.5, min(ratios)


def test_nothing_comes_from_the_network_and_names_do_nothing(browser, pages):
    browser.get_log("performance")
    browser.get(pages["table"])
    asked = [
        e["message"] for e in browser.get_log("performance") if "requestWillBeSent" in e["message"]
    ]
    assert len(asked) >= 1
    assert not any('"url":"http' in message for message in asked)
    assert browser.execute_script("return document.querySelectorAll('b').length") == 0
    heat = "return [...document.querySelectorAll('#heat tbody th')].map(cell => cell.innerText)"
    assert "<b>shoe</b>" in browser.execute_script(heat)


def brightness(browser, selector):
    """Mean of a picture between 0 and 1, and the pixels near the color of component 0."""
    place = browser.execute_script(
        f"const b = document.querySelector('{selector}').getBoundingClientRect();"
        "return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}"
    )
    pixels = imread(io.BytesIO(captured(browser, place)))[..., :3]
    blue = np.abs(pixels - np.array([0x00, 0x72, 0xB2]) / 255).max(axis=2) < 0.02
    return float(pixels.mean()), int(blue.sum())


def test_pictures_follow_the_scheme_and_components_keep_their_colors(browser, pages):
    found = {}
    for scheme in SCHEMES:
        look(browser, 820, scheme)
        browser.get(pages["table"])
        unfold(browser)
        for picture in ("column-0", "column-2", "pair-0"):
            found[scheme, picture] = brightness(browser, f"#picture-{picture} img")
    for picture in ("column-0", "column-2", "pair-0"):
        assert found["light", picture][0] > 0.75
        assert found["dark", picture][0] < 0.35
        assert min(found[scheme, picture][1] for scheme in SCHEMES) > 100


def test_prints_on_a_few_pages_with_every_parameter(browser, pages):
    look(browser, 1280, "dark")  # paper is white in any scheme
    browser.get(pages["table"])
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    document = base64.b64decode(printed["data"])
    assert document[:5] == b"%PDF-"
    assert 2 <= document.count(b"/Type /Page\n") <= 10
    look(browser, 1280, "light", "print")
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')]"
        ".filter(b => b.scrollHeight > b.clientHeight + 2).length"
    )
    assert cut == 0
