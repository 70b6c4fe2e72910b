"""The models themselves, in PyTorch alone: no process, no socket, no asyncio."""
