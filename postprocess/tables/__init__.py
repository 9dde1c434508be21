"""The papers' tables: layouts, formats, and the papers' own cells."""
