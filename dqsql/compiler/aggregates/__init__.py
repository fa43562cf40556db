"""One file for each kind of aggregate that dqsql takes apart; `registry` finds them."""
