"""What writes the generated pages."""
