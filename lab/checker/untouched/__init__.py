"""Checker of a drill beside production: was anything of it touched? Imports no code of the product."""
