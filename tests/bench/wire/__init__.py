"""A client without a client: requests encoded beforehand, answers compared as bytes, so that what is measured
is the server and not what asks it.
"""
