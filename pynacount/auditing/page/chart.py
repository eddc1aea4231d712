"""The distribution of drift: bars that grow to the left and to the right of how far a tally is off."""

from __future__ import annotations

from pynacount.auditing.page.distribution import Distribution
from pynacount.auditing.page.texts import many

LEAST = 1.5
"""Per cent of the width that one tally is at least shown with."""


def chart(distribution: Distribution) -> str:
    """A table with bars in it, so that it can be read out. No drift is told in words: its bar would drown the rest."""
    longest = max(*distribution.low, *distribution.high)
    if not longest:
        return ""
    rows = "\n".join(
        f'<tr><td class="n">{low:,}</td><td class="bar low">{_bar(low, longest, left=True)}</td>'
        f'<th scope="row">{label}</th>'
        f'<td class="bar high">{_bar(high, longest, left=False)}</td><td class="n">{high:,}</td></tr>'
        for label, low, high in zip(distribution.labels, distribution.low, distribution.high, strict=True)
    )
    return f"""\
<section class="card chart" aria-labelledby="chart-title">
<h2 id="chart-title">Distribution of drift</h2>
<table>
<thead><tr><th scope="col" colspan="2" class="low">Tally too low</th><th scope="col">Off by</th>\
<th scope="col" colspan="2" class="high">Tally too high</th></tr></thead>
<tbody>
{rows}
</tbody>
<tfoot><tr><td class="n low">{sum(distribution.low):,}</td><td></td><th scope="row">in all</th><td></td>\
<td class="n high">{sum(distribution.high):,}</td></tr></tfoot>
</table>
<p class="aside">{many(distribution.none, "tally")} without drift, not drawn.</p>
</section>
"""


def _bar(count: int, longest: int, *, left: bool) -> str:
    if not count:
        return ""
    # Attributes of SVG, since the page's policy forbids style attributes.
    width = max(LEAST, 100 * count / longest)
    x = 100 - width if left else 0.0
    return f'<svg aria-hidden="true"><rect x="{x:.2f}%" width="{width:.2f}%" height="100%" rx="2"/></svg>'
