"""Ask for reservations, read and explain them; offers, holds and RDL before one is asked for."""
