"""Draw penguins.png, the picture of README.md; python docs/pictures/penguins.py."""

from pathlib import Path

import momentmix as mm
from momentmix import displays

table = mm.example_table("penguins")
measured = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
result = mm.fit(table, columns=measured, missing="drop", random_state=0)
rows = mm.open_rows(table, columns=measured, missing="drop")
display = displays.PairsDisplay.from_estimator(result, rows, features=measured[:3])
display.figure_.savefig(Path(__file__).with_name("penguins.png"), dpi=90)
