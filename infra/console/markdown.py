"""Renders a model card: Markdown of people and of data, so no HTML, no links and no images come out of it."""

from markupsafe import Markup


def render_card(text: str) -> Markup:
    """Headings, lists, tables, emphasis and code; everything else is text. Headings begin at the third level."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "image", "autolink", "html_inline", "html_block"])
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{max(3, int(token.tag[1]))}"
        # An alignment would come out as a style attribute, which the page's policy refuses.
        token.attrs.pop("style", None)
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704 - the renderer escapes; raw HTML is switched off
