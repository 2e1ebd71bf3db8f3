"""Draw penguins.png, a report as README.md shows it; python docs/pictures/penguins.py.

The picture is taken by chromium (Debian: chromium).
"""

import datetime
import subprocess
import tempfile
from pathlib import Path

import momentmix as mm

table = mm.example_table("penguins")
measured = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
rows = mm.open_rows(table, columns=measured, missing="drop")
result = mm.fit(rows, random_state=0)
with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "report.html"
    date = datetime.date(2026, 11, 19)
    mm.report(result, page, rows, date=date, data_name="penguins.csv")
    target = Path(__file__).with_name("penguins.png")
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,880"]
    subprocess.run(["chromium", *options, f"--screenshot={target}", page.as_uri()], check=True)
