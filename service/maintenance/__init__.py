"""Operations on a whole database: backup, restore and upgrade."""
