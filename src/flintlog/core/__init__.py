"""Words shared by all dialects: position, finding, plan, inventory, group commit, dialect registry."""
