"""What becomes of commitments when capacity changes (Rayon 5.2, Adapter), and how they are moved."""
