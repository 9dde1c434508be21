"""What an answer says: the verdict, the option letter, relaxed matching."""
