"""Probabilities of levels, and of cells being seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.heat import draw_heat_map, heat_map_size, is_tall
from momentmix.displays.probabilities import Probabilities, all_probabilities
from momentmix.displays.style import (
    GRAY,
    component_handles,
    component_names,
    component_styles,
    entries_in_a_row,
    error_bars,
    ink,
    intervals_of,
    mixture_of,
    need_matplotlib,
    new_axes,
    short_name,
)
from momentmix.errors import InputError
from momentmix.mixture.conditional import column_numbers

_PANELS_IN_A_ROW = 3
_MOST_BARS = 40  # in a third of the width of the picture
_MOST_LEVELS = 12  # of a column that is drawn as bars; of more levels, those of most rows


@dataclass
class LevelsDisplay:
    """Probabilities of levels within components, and of cells being seen.

    A heat map with a row for each component and a block of cells for each column, or bars with
    95 % intervals. Where there are more than 16 probabilities, they are the rows of the heat map
    and the components its columns. Yes/no columns show the probability of the second level. All
    probabilities of levels are those where the cell is seen.

    Attributes
    ----------
    weights : array of shape (n_components,)
    groups : list of Probabilities
        One for each column, and one for the probabilities of being seen.
    ax_, axes_, figure_
        Axes and figure of matplotlib.
    component_names : sequence of str
        Names of the components; empty where they have none.
    """

    weights: Float
    groups: list[Probabilities]
    ax_: Any = field(default=None, repr=False)
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    component_names: Sequence[str] = ()

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        columns: Sequence[int | str] | None = None,
        kind: str = "heat map",
        ax: Any = None,
    ) -> LevelsDisplay:
        """Draw the probabilities of a model.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        columns : sequence of int or str, optional
            Columns to show, by number or name; all by default.
        kind : {"heat map", "bars"}
        ax : matplotlib axes, optional
            For the heat map; bars take a figure of their own.
        """
        need_matplotlib()
        if kind not in ("heat map", "bars"):
            raise InputError(f'kind must be "heat map" or "bars"; got {kind!r}.')
        if kind == "bars" and ax is not None:
            raise InputError('kind="bars" draws several panels; leave ax out.')
        mixture = mixture_of(model)
        groups = all_probabilities(mixture, intervals_of(model))
        if columns is not None:
            chosen = column_numbers(columns, mixture.n_columns, mixture.feature_names).tolist()
            parts = [group.of_columns(chosen) for group in groups]
            groups = [group for group in parts if group.labels]
        if not groups:
            raise InputError(
                "the columns are numbers without missing cells, which have no probabilities. "
                "Use MeansDisplay."
            )
        names = component_names(mixture)
        return cls(mixture.weights, groups, component_names=names).plot(kind, ax)

    def plot(self, kind: str = "heat map", ax: Any = None) -> LevelsDisplay:
        """Draw; `kind` as for `from_estimator`."""
        if kind == "bars":
            self._bars()
        else:
            self._heat_map(ax)
        return self

    @property
    def values(self) -> Float:
        """All probabilities, of shape (n_components, n_labels)."""
        return np.hstack([group.values for group in self.groups])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the heat map."""
        return heat_map_size(self.labels, self.weights, self.component_names)

    @property
    def labels(self) -> list[str]:
        """What the probabilities belong to."""
        return [label for group in self.groups for label in group.full_labels]

    # -- heat map -----------------------------------------------------------------------------

    def _heat_map(self, ax: Any) -> None:
        values = self.values
        self.ax_ = self.axes_ = ax = new_axes(ax, self.size)
        self.figure_ = ax.figure
        texts = [["–" if np.isnan(x) else f"{x:.2f}" for x in row] for row in values]
        image = draw_heat_map(
            ax, values, self.labels, self.weights, self.component_names, texts=texts, cmap="Blues",
            vmin=0, vmax=1,
        )  # fmt: skip
        ax.set_facecolor("0.75")  # where a component never sees a column
        line = ax.axhline if is_tall(values.shape[1]) else ax.axvline
        for end in np.cumsum([len(group.labels) for group in self.groups])[:-1]:
            line(end - 0.5, color=GRAY, linewidth=1.5)
        ax.set_title("Levels: probabilities within components")
        ax.figure.colorbar(image, ax=ax, label="probability")

    # -- bars ---------------------------------------------------------------------------------

    def _bars(self) -> None:
        from matplotlib import pyplot

        panels = _panels(self.groups, self.weights)
        r, most = len(self.weights), max(len(labels) for _, labels, _ in panels)
        crowded = min(most, _MOST_LEVELS) * r > _MOST_BARS
        n_columns = 1 if crowded else min(_PANELS_IN_A_ROW, len(panels))
        n_rows = -(-len(panels) // n_columns)
        width = 8.6 if crowded else max(4.6, 4.2 * n_columns)
        entries = component_handles(self.weights, self.component_names, line=False)
        in_a_row = entries_in_a_row(entries, width)
        size = width, 3.4 * n_rows + 0.5 + 0.2 * -(-r // in_a_row)
        self.figure_, axes = pyplot.subplots(
            n_rows, n_columns, figsize=size, squeeze=False, layout="constrained"
        )
        self.axes_, self.ax_ = axes, axes[0, 0]
        for ax in axes.flat[len(panels) :]:
            ax.set_visible(False)
        for ax, (title, labels, groups) in zip(axes.flat, panels, strict=False):
            self._panel(ax, title, labels, groups)
        self.figure_.suptitle("Levels: probabilities within components")
        known = any(group.low is not None for group in self.groups)
        title = "component: share of rows" + ("; lines: 95 % intervals" if known else "")
        style: Any = {"fontsize": "small", "title_fontsize": "small", "frameon": False}
        self.figure_.legend(
            handles=entries, title=title, loc="outside lower center", ncols=in_a_row, **style
        )

    def _panel(self, ax: Any, title: str, labels: list[str], groups: list[Probabilities]) -> None:
        values = np.hstack([group.values for group in groups])
        ends = None
        if all(group.low is not None and group.high is not None for group in groups):
            ends = [np.hstack([getattr(group, end) for group in groups]) for end in ("low", "high")]
        r, n = values.shape
        for k, (color, _) in enumerate(component_styles(r)):
            x = np.arange(n) + 0.8 * ((k + 0.5) / r - 0.5)
            bars = error_bars(values[k], None if ends is None else (ends[0][k], ends[1][k]))
            ax.bar(
                x, values[k], 0.8 / r, yerr=bars, color=color,
                error_kw={"ecolor": ink(), "elinewidth": 0.8, "capsize": min(2.0, 8.0 / r)},
            )  # fmt: skip
        shown = [short_name(label) for label in labels]
        long = n > 3 or sum(map(len, shown)) > 36
        turned: Any = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if long else {}
        ax.set_xticks(range(n), shown, **turned)
        ax.set(title=title, ylabel="probability", ylim=(0, 1.05))


def _panels(
    groups: list[Probabilities], weights: Float
) -> list[tuple[str, list[str], list[Probabilities]]]:
    """Title, labels and contents of each panel: yes/no columns share one, up to twelve of them."""
    found = []
    answers = [group for group in groups if group.title and len(group.labels) == 1]
    for start in range(0, len(answers), _MOST_LEVELS):
        part = answers[start : start + _MOST_LEVELS]
        labels = [label for group in part for label in group.full_labels]
        found.append(("yes/no columns", labels, part))
    for group in groups:
        title, n = short_name(group.title), len(group.labels)
        if title and n > _MOST_LEVELS:
            common = np.argsort(-(weights @ np.nan_to_num(group.values)), kind="stable")
            kept = group.at(np.sort(common[:_MOST_LEVELS]).tolist())
            found.append((f"{title}: {_MOST_LEVELS} of {n} levels", kept.labels, [kept]))
        elif title and n > 1:
            found.append((title, group.labels, [group]))
        elif not title:
            for start in range(0, n, _MOST_LEVELS):
                part_seen = group.at(range(start, min(start + _MOST_LEVELS, n)))
                found.append(("cell is seen", part_seen.labels, [part_seen]))
    return found
