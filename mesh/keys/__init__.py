"""Who is on the mesh, by keys: certificates in files, the table of who may do what, and what each role is."""
