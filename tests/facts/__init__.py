"""What ops return."""
