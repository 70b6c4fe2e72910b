"""Client library of an Ouzel server: asyncio, no torch."""
