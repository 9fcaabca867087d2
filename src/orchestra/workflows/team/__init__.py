"""Teams: agents defined in Markdown draft, review each other and revise (S4)."""
