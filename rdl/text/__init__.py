"""RDL as text: tokens, the parser, and the canonical form that the formatter writes."""
