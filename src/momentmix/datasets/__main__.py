"""``python -m momentmix.datasets``: copy the tables to the current folder."""

import shutil

from momentmix.datasets import NAMES, example_table

if __name__ == "__main__":
    for name in NAMES:
        print(shutil.copyfile(example_table(name), f"{name}.csv"))
