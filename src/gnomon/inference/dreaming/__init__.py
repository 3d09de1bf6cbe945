"""Dreams: a model of what actions lead to, learned from experience, and policies trained on what is drawn from it."""
