"""
Colors of a photograph
======================

The rows are the pixels of a photograph: three opponent colors and the roughness of the
neighborhood. They are not a mixture of Gaussians, and the moments of four features do not identify
six components: the certificate does not pass. The segmentation can still be useful, but the
parameters have no meaning of their own.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import uniform_filter
from sklearn.datasets import load_sample_image

import momentmix as mm

photograph = load_sample_image("china.jpg")[::2, ::2] / 255.0

# %%
# Red, green and blue are strongly correlated; brightness and two opponent colors much less. The
# model assumes that features are independent within components.

red, green, blue = np.moveaxis(photograph, 2, 0)
brightness = (red + green + blue) / 3
rough = np.sqrt(
    np.maximum(uniform_filter(brightness**2, 7) - uniform_filter(brightness, 7) ** 2, 1e-6)
)
channels = {
    "brightness": uniform_filter(brightness, 3),
    "red − green": uniform_filter(red - green, 3),
    "yellow − blue": uniform_filter((red + green) / 2 - blue, 3),
    "log roughness": np.log(rough),
}
rows = np.column_stack([channel.ravel() for channel in channels.values()])

# %%
# Six components.

result = mm.fit(rows, 6, random_state=0)
labels = result.mixture.predict(rows).reshape(brightness.shape)
print(result.certificate)

# %%
# Each segment in the average color of its pixels.

shown = np.zeros_like(photograph)
for k in range(6):
    if (labels == k).any():
        shown[labels == k] = photograph[labels == k].mean(axis=0)

figure, axes = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
axes[0].imshow(photograph)
axes[0].set_title("photograph")
axes[1].imshow(shown)
axes[1].set_title("components, in their mean color")
axes[2].imshow(result.mixture.responsibilities(rows).max(axis=1).reshape(labels.shape), cmap="gray")
axes[2].set_title("how sure (white: certain)")
for ax in axes:
    ax.axis("off")
plt.show()
