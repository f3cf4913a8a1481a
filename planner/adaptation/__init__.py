"""What becomes of promises when capacity changes (Rayon 5.2, Adapter), and how they are moved."""
