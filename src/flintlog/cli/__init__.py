"""The command `flintlog`: an operator's view of any log directory."""
