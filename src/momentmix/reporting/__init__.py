"""A fit as one HTML file that needs no network: `report`."""
