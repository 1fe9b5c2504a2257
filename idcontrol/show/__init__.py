"""Views of a recorded run: the report page (`report`) and the replay in 3-D (`view`)."""
