"""Views of records: the pages of a run (`report`) and of a comparison, and the replay in 3-D (`view`)."""
