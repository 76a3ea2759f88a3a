"""Renders HTML pages from templates; every value is escaped, and a missing value is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from kafka_dr.domain.plain_text import (
    format_clock,
    format_duration,
    format_moment,
    format_number,
    time_of_day,
    visible_text,
)

TEMPLATES = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible_value,
    )
    environment.filters |= {
        "number": format_number,
        "duration": format_duration,
        "moment": format_moment,
        "time": time_of_day,
        "clock": format_clock,
    }
    return environment


def _visible_value(value: Any) -> Any:
    """Return what a template prints for a value; a macro's output is unchanged, because its values were printed so."""
    return value if hasattr(value, "__html__") else visible_text(value)


def render_page(template: str, **values: Any) -> str:
    """Render a template in `templates/` with its values; return the HTML or CSS as text."""
    return _environment().get_template(template).render(**values)
