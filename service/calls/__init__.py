"""One function a call, without HTTP: everything between parsed fields and the answer."""
