"""The scheduled opening: one elected instance opens the sale at a set time."""
