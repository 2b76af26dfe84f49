"""What a gateway asks of other gateways of its cluster, and what it knows of them from that."""
