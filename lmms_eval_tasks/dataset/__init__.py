"""The dataset folder: which one is current, its rows and pictures, and the files around it."""
