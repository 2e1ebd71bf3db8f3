"""Draw the pictures of docs/reading-a-result.md from its table; python docs/pictures/customers.py.

Those of the report are taken by chromium (Debian: chromium).
"""

import datetime
import doctest
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import momentmix as mm
from momentmix import displays

HERE = Path(__file__).parent
CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars"]
THEMES = {"": ["default"], "-dark": ["dark_background"]}
DARK = {"": 1, "-dark": 0}  # the color scheme that the page is told to prefer

page = (HERE.parent / "reading-a-result.md").read_text(encoding="utf-8")
values = {}
for example in doctest.DocTestParser().get_examples(page)[:6]:
    exec(example.source, values)
result, customers = values["result"], values["customers"]
for name, style in THEMES.items():
    with plt.style.context(style):
        figure = displays.ColumnsDisplay.from_estimator(result, customers).figure_
        figure.savefig(HERE / f"customers{name}.png", dpi=110, transparent=True)
with tempfile.TemporaryDirectory() as folder:
    report = Path(folder) / "report.html"
    names = ["commuters", "students", "day trippers"]
    date = datetime.date(2026, 11, 17)
    mm.report(result, report, customers, names=names, date=date, data_name="customers.csv")
    for name, scheme in DARK.items():
        options = ["--window-size=1000,1450", f"--blink-settings=preferredColorScheme={scheme}"]
        options.append(f"--screenshot={HERE / f'report{name}.png'}")
        subprocess.run([*CHROMIUM, *options, report.as_uri()], check=True)
