"""Views of a recorded run: figures, the report page, the replay in 3-D (`view`). Nothing here runs an experiment."""
