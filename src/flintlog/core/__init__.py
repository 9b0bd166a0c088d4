"""What all dialects share: position, finding, plan, inventory, group commit, dialect registry."""
