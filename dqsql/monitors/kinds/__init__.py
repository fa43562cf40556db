"""The kinds of monitors: a file or a folder each, with one `KIND`; `registry` finds them."""
