"""Small real tables that come with the package; README.md beside them says whose they are."""

from pathlib import Path

from momentmix.errors import InputError

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.csv")))


def example_table(name: str) -> Path:
    """Return the path of a CSV file that comes with the package.

    Parameters
    ----------
    name : {"penguins", "votes"}
        "penguins": 344 penguins of three species, with four measurements, sex, island and year.
        "votes": how 435 members of the United States House of Representatives voted on 16
        questions in 1984, with gaps. ``python -m momentmix.datasets`` copies both to the current
        folder.

    Examples
    --------
    >>> example_table("penguins").name
    'penguins.csv'
    """
    if name not in NAMES:
        raise InputError(f"name must be one of {', '.join(NAMES)}; got {name!r}.")
    return FOLDER / f"{name}.csv"
