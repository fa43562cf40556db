"""Which models of a project a command is about: the selection syntax of dbt."""
