"""What the commands do, without their parsing of options and their printing."""
