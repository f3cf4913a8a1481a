"""One function for each call, without HTTP: from parsed fields to the answer."""
