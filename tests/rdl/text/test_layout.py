"""The one layout of RDL text: nothing but blanks and line breaks changes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rdl.expressions import Expression
from rdl.text.formatter import format_expression, format_pretty
from rdl.text.layout import lay_out_text
from rdl.text.parser import parse
from rdl.text.tokenizer import END, STRING, Tokenizer
from tests.strategies import expressions

MESSY = """# head
b=<2   GiB memory,1 cpu> ; # the box


extract = atom(b, tasks=10, each=5m);
nightly:every( 1d ,window(order( # first
 extract, # pull
 # second
 train:atom( <4 cpu>,min = 4,max=4,lease=1h,work=4h), gap=5m .. 1h), 22:00,06:00),days=[ mon..fri ],
 times=3, anchor = 14:00,zone="Europe/Berlin"  # end
) # tail
# foot
"""

NEAT = """# head
b = <2 GiB memory, 1 cpu>;  # the box

extract = atom(b, tasks=10, each=5m);
nightly: every(
  1d,
  window(
    order(
      # first
      extract,  # pull
      # second
      train: atom(<4 cpu>, min=4, max=4, lease=1h, work=4h),
      gap=5m..1h
    ),
    22:00, 06:00
  ),
  days=[mon..fri], times=3, anchor=14:00,
  zone="Europe/Berlin"  # end
)  # tail
# foot
"""


def test_comments_keep_their_places() -> None:
    """Comments on lines of their own stay before what follows, the others behind what they end."""
    assert lay_out_text(MESSY) == NEAT


def test_comments_on_both_sides_of_a_semicolon_stay_put_when_laid_out_twice() -> None:
    """One stands behind the definition, what was before it goes above: twice is once."""
    laid = lay_out_text("x = all()  # one\n;  # two\n\nx")
    assert laid == "# one\nx = all();  # two\n\nx\n"
    assert lay_out_text(laid) == laid


def _tokens(text: str) -> list[str]:
    tokens = Tokenizer(text)
    found = []
    while tokens.kind != END:
        found.append(tokens.text if tokens.kind == STRING else re.sub(r"\s+", "", tokens.text))
        tokens.advance()
    return found


@given(expressions(), st.booleans(), st.data())
def test_the_layout_is_stable_and_keeps_tokens_and_comments(
    expression: Expression, pretty: bool, data: st.DataObject
) -> None:
    """Laid out, a text has the same tokens and comments and means the same; twice is once."""
    text = format_pretty(expression) if pretty else format_expression(expression)
    places = [0, *_ends(text)]
    chosen = data.draw(st.lists(st.sampled_from(places), max_size=4, unique=True))
    for number, place in enumerate(sorted(chosen, reverse=True)):
        head = data.draw(st.sampled_from(["", " ", "\n", "\n\n"]))
        text = f"{text[:place]}{head}# note {number}\n{text[place:]}"

    laid = lay_out_text(text)

    assert lay_out_text(laid) == laid
    assert parse(laid) == expression
    assert _tokens(laid) == _tokens(text)
    assert sorted(re.findall("# note [0-9]", laid)) == sorted(re.findall("# note [0-9]", text))


def _ends(text: str) -> list[int]:
    """Return the places behind tokens, where a comment may stand."""
    tokens = Tokenizer(text)
    found = []
    while tokens.kind != END:
        found.append(tokens.span[1])
        tokens.advance()
    return found
