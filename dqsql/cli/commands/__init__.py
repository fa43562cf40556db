"""One module per command; each is imported when its command is called."""
