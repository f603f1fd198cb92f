"""Markdown of dashboards and runbooks as HTML."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt


@cache
def _parser() -> MarkdownIt:
    # HTML in a text stays text, so that the page shows nothing but what Markdown can say.
    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def html_of(text: str) -> str:
    """Return a Markdown text as HTML. Markup in the text is escaped."""
    html: str = _parser().render(text)
    return html
