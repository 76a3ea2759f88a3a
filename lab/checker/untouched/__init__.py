"""Checker of drills: whether a drill beside production has touched anything of it; imports no code of the product."""
