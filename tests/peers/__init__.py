"""The same scenes in external simulators: agreement where physics decides, reasons where models differ."""
