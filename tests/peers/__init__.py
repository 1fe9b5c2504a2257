"""The same scenes in engines that nobody here wrote: agreement in what physics fixes, reasons where models differ."""
