"""How a run is looked at: figures, the report page, the replay in 3-D (`view`). Reads records, runs nothing."""
